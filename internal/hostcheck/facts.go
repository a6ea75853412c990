package hostcheck

import (
	"felix/platform"
	"felix/udp"
)

// Facts are what is known of a host. A fact that could not be found out has its
// reason in Unknown under the key of the field.
type Facts struct {
	Kernel     platform.KernelVersion `json:"kernel"`
	Arch       string                 `json:"arch"`
	CPU        platform.CPUInfo       `json:"cpu"`
	GoMaxProcs int                    `json:"gomaxprocs"`

	// Socket is what a UDP socket on loopback was granted and uses; nil if
	// none could be opened.
	Socket *SocketFacts `json:"socket,omitempty"`
	// IPv6 tells whether a socket can be bound to ::1.
	IPv6 platform.Answer `json:"ipv6"`

	SegmentedSends    platform.Feature `json:"segmented_sends"`
	SegmentLimit      int              `json:"segment_limit"`
	CoalescedReceives platform.Feature `json:"coalesced_receives"`
	BatchedSends      platform.Feature `json:"batched_sends"`
	BatchedReceives   platform.Feature `json:"batched_receives"`
	ForcedBuffers     platform.Feature `json:"forced_buffers"`

	// Loopback is the link between processes of this host.
	Loopback *LinkFacts `json:"loopback,omitempty"`
	// Uplink is the link of the default route; nil without one.
	Uplink *LinkFacts `json:"uplink,omitempty"`

	// UDPMemoryPages is net.ipv4.udp_mem: low, pressure, high; nil if the
	// system has no such limit.
	UDPMemoryPages []int64 `json:"udp_memory_pages,omitempty"`
	PageBytes      int     `json:"page_bytes"`
	// BacklogPackets is net.core.netdev_max_backlog; 0 if the system has none.
	BacklogPackets int64 `json:"backlog_packets"`
	// Counters since the host (its network namespace) started.
	Counters platform.UDPStats     `json:"udp_counters"`
	Softnet  platform.SoftnetStats `json:"softnet"`

	NetAdmin      platform.Answer `json:"cap_net_admin"`
	BPFRight      platform.Answer `json:"cap_bpf"`
	PerfmonRight  platform.Answer `json:"cap_perfmon"`
	SysAdmin      platform.Answer `json:"cap_sys_admin"`
	UserNamespace platform.Answer `json:"initial_user_namespace"`
	NetNamespace  platform.Answer `json:"initial_net_namespace"`

	BTF     platform.Feature `json:"btf"`
	BPFFS   platform.Feature `json:"bpffs"`
	TraceFS platform.Feature `json:"tracefs"`

	OpenFiles    *platform.Limit `json:"open_files,omitempty"`
	LockedMemory *platform.Limit `json:"locked_memory_bytes,omitempty"`

	// Unknown holds the reasons of facts that could not be found out, by key.
	Unknown map[string]string `json:"unknown,omitempty"`
}

// SocketFacts describe one UDP socket opened with the settings in force.
type SocketFacts struct {
	Granted      udp.Buffers      `json:"granted"`
	Capabilities udp.Capabilities `json:"capabilities"`
}

// LinkFacts describe one network link.
type LinkFacts struct {
	Interface         string `json:"interface"`
	InterfaceMTUBytes int    `json:"interface_mtu_bytes"`
	// RouteMTUBytes is the MTU of the route, at most that of the interface.
	RouteMTUBytes int `json:"route_mtu_bytes"`
	// Up says that the interface is up; a route's always is.
	Up bool `json:"up"`
	// V6 says that the route is an IPv6 one.
	V6 bool `json:"v6"`
	// Offloads that matter for UDP, those the interface knows.
	Offloads platform.Offloads `json:"offloads,omitempty"`
}

func (f *Facts) unknown(key string, err error) {
	if f.Unknown == nil {
		f.Unknown = map[string]string{}
	}
	f.Unknown[key] = err.Error()
}

// why returns the reason for a missing fact.
func (f Facts) why(key string) string {
	if reason, ok := f.Unknown[key]; ok {
		return reason
	}
	return "not found out"
}

func (f Facts) linux() bool { return f.Kernel.OS == "linux" }
