package hostcheck

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"felix/platform"
	"felix/udp"
)

func on() udp.Feature { return udp.Feature{Active: true} }

func yesFeature() platform.Feature { return platform.Feature{Answer: platform.Yes, Reason: "accepted"} }

func grant(asked, granted int) udp.Grant { return udp.Grant{Asked: asked, Granted: granted} }

func offloads(segment, gro bool) platform.Offloads {
	return platform.Offloads{
		platform.OffloadUDPSegment: {Active: segment, Available: true},
		platform.OffloadGRO:        {Active: gro, Available: true},
	}
}

// goodHost is a Linux host with nothing to complain about.
func goodHost() Facts {
	const mib = 1 << 20
	return Facts{
		Kernel:     platform.KernelVersion{OS: "linux", Release: "6.12.1", Major: 6, Minor: 12, Patch: 1},
		Arch:       "amd64",
		CPU:        platform.CPUInfo{Model: "made up", Online: 8, Allowed: []int{0, 1, 2, 3, 4, 5, 6, 7}},
		GoMaxProcs: 8,
		Socket: &SocketFacts{
			Granted:      udp.Buffers{Read: grant(8*mib, 8*mib), Write: grant(8*mib, 8*mib)},
			Capabilities: udp.Capabilities{GSO: on(), GRO: on(), SendMMsg: on(), RecvMMsg: on(), MaxSegments: 128},
		},
		IPv6:              platform.Yes,
		SegmentedSends:    yesFeature(),
		SegmentLimit:      128,
		CoalescedReceives: yesFeature(),
		BatchedSends:      yesFeature(),
		BatchedReceives:   yesFeature(),
		ForcedBuffers:     yesFeature(),
		Loopback:          &LinkFacts{Interface: "lo", InterfaceMTUBytes: 65536, RouteMTUBytes: 65536, Up: true, Offloads: offloads(true, true)},
		Uplink:            &LinkFacts{Interface: "eth0", InterfaceMTUBytes: 1500, RouteMTUBytes: 1500, Up: true, Offloads: offloads(true, true)},
		UDPMemoryPages:    []int64{100000, 200000, 300000},
		PageBytes:         4096,
		BacklogPackets:    1000,
		NetAdmin:          platform.Yes,
		BPFRight:          platform.Yes,
		PerfmonRight:      platform.Yes,
		SysAdmin:          platform.No,
		UserNamespace:     platform.Yes,
		NetNamespace:      platform.Yes,
		BTF:               yesFeature(),
		BPFFS:             yesFeature(),
		TraceFS:           yesFeature(),
		OpenFiles:         &platform.Limit{Soft: 65536, Hard: 65536},
		LockedMemory:      &platform.Limit{Soft: 8 << 20, Hard: 8 << 20},
	}
}

func TestGoodHost(t *testing.T) {
	r := Evaluate(goodHost())
	for _, f := range r.Findings {
		if f.Severity != OK || f.Remedy != nil || f.Why != "" || f.Evidence == "" || f.Title == "" {
			t.Errorf("not simply ok: %+v", f)
		}
	}
	if r.Severity != OK || r.DropIn != nil || r.Err() != nil {
		t.Errorf("report: %v, %v, %v", r.Severity, r.DropIn, r.Err())
	}
	var ids []string
	for _, f := range r.Findings {
		ids = append(ids, f.ID)
	}
	slices.Sort(ids)
	if len(slices.Compact(ids)) != len(r.Findings) {
		t.Errorf("an ID is used twice: %v", ids)
	}
}

// badHosts holds, per case, what differs from the good host and what must be
// said about it.
var badHosts = []struct {
	name     string
	spoil    func(f *Facts)
	id       string
	severity Severity
	says     []string // in evidence, why or remedy
}{
	{"no socket at all", func(f *Facts) { f.Socket = nil; f.unknown("socket", errors.New("too many open files")) },
		"socket", Unsafe, []string{"too many open files"}},
	{"receive buffer cut to the stock limit", func(f *Facts) {
		f.Socket.Granted.Read = udp.Grant{Asked: 8 << 20, Granted: 212992, Limit: "net.core.rmem_max", LimitBytes: 212992}
	}, "read_buffer", CostsThroughput, []string{"asked for 8192 KiB, granted 208 KiB", "net.core.rmem_max=212992", "sysctl -w net.core.rmem_max=8388608", "CAP_NET_ADMIN"}},
	{"the same in a container", func(f *Facts) {
		f.NetNamespace = platform.No
		f.Socket.Granted.Read = udp.Grant{Asked: 8 << 20, Granted: 212992, Limit: "net.core.rmem_max"}
	}, "read_buffer", CostsThroughput, []string{"setting of the host", "not in this container"}},
	{"the stock limit keeps loopback slow", func(f *Facts) {
		f.Socket.Granted.Read = udp.Grant{Asked: 8 << 20, Granted: 212992, Limit: "net.core.rmem_max", LimitBytes: 212992}
	}, "loopback_packets", CostsThroughput, []string{"holds 13 packets of 16336 bytes", "1021 KiB"}},
	{"send buffer a little short", func(f *Facts) {
		f.Socket.Granted.Write = udp.Grant{Asked: 8 << 20, Granted: 4 << 20, Limit: "net.core.wmem_max", LimitBytes: 4 << 20}
	}, "write_buffer", Notice, []string{"net.core.wmem_max=4194304"}},
	{"send buffer far too short", func(f *Facts) {
		f.Socket.Granted.Write = udp.Grant{Asked: 8 << 20, Granted: 64 << 10, Limit: "net.core.wmem_max"}
	}, "write_buffer", CostsThroughput, []string{"sysctl -w net.core.wmem_max=8388608"}},
	{"a system that does not tell", func(f *Facts) { f.Socket.Granted.Read.Granted = 0 },
		"read_buffer", Notice, []string{"does not tell"}},
	{"macOS limit includes bookkeeping", func(f *Facts) {
		f.Kernel.OS = "darwin"
		f.Socket.Granted.Read = udp.Grant{Asked: 8 << 20, Granted: 6 << 20, Limit: "kern.ipc.maxsockbuf", LimitBytes: 6 << 20}
	}, "read_buffer", CostsThroughput, []string{"kern.ipc.maxsockbuf=9437184", "launch daemon"}},
	{"little memory for UDP", func(f *Facts) { f.UDPMemoryPages = []int64{1000, 2000, 3000} },
		"udp_memory", CostsThroughput, []string{"11 MiB", "sysctl -w net.ipv4.udp_mem='8192 12288 16384'"}},
	{"old kernel without segmentation", func(f *Facts) {
		f.SegmentedSends = platform.Feature{Answer: platform.No, Reason: "UDP_SEGMENT was refused"}
		f.Socket.Capabilities.GSO = udp.Feature{Reason: "protocol not available"}
	}, "segmented_sends", CostsThroughput, []string{"Linux 4.18"}},
	{"coalescing switched off", func(f *Facts) { f.Socket.Capabilities.GRO = udp.Feature{Reason: "switched off"} },
		"coalesced_receives", CostsThroughput, []string{"FELIX_UDP_GRO", "switched off"}},
	{"batched receives unknown", func(f *Facts) {
		f.BatchedReceives = platform.Feature{Reason: "out of descriptors"}
		f.Socket.Capabilities.RecvMMsg = udp.Feature{}
	}, "batched_receives", Notice, []string{"out of descriptors"}},
	{"macOS has no segmentation", func(f *Facts) {
		f.Kernel.OS = "darwin"
		f.SegmentedSends = platform.Feature{Answer: platform.No, Reason: "Linux only"}
		f.Socket.Capabilities.GSO = udp.Feature{Reason: "not supported"}
	}, "segmented_sends", Notice, []string{"not on this system"}},
	{"loopback missing", func(f *Facts) { f.Loopback = nil; f.unknown("loopback", errors.New("no loopback interface")) },
		"loopback_mtu", Unsafe, []string{"no loopback interface", "ip link set lo up"}},
	{"loopback down", func(f *Facts) { f.Loopback.Up = false }, "loopback_mtu", Unsafe, []string{"lo is down", "ip link set lo up"}},
	{"loopback down on macOS", func(f *Facts) { f.Kernel.OS, f.Loopback.Up = "darwin", false },
		"loopback_mtu", Unsafe, []string{"ifconfig lo0 up"}},
	{"settings hidden by a namespace", func(f *Facts) { f.NetNamespace, f.UDPMemoryPages = platform.No, nil },
		"udp_memory", Notice, []string{"net.ipv4.udp_mem is a setting of the host"}},
	{"loopback with a small MTU", func(f *Facts) { f.Loopback.InterfaceMTUBytes = 1500 },
		"loopback_mtu", CostsThroughput, []string{"ip link set lo mtu 65536"}},
	{"loopback cuts segments", func(f *Facts) { f.Loopback.Offloads = offloads(false, true) },
		"loopback_offloads", CostsThroughput, []string{"ethtool -K lo tx-udp-segmentation on"}},
	{"loopback offloads unknown", func(f *Facts) { f.Loopback.Offloads = nil },
		"loopback_offloads", Notice, nil},
	{"no default route", func(f *Facts) { f.Uplink = nil; f.unknown("uplink", platform.ErrNoRoute) },
		"path_mtu", Notice, []string{"no default route"}},
	{"one byte too few for QUIC over IPv4", func(f *Facts) { f.Uplink.RouteMTUBytes = 1227 },
		"path_mtu", Unsafe, []string{"1227", "ip link set eth0 mtu 1228", "the interface has 1500"}},
	{"one byte too few for QUIC over IPv6", func(f *Facts) { f.Uplink.RouteMTUBytes, f.Uplink.V6 = 1247, true },
		"path_mtu", Unsafe, []string{"ip link set eth0 mtu 1248"}},
	{"uplink without receive offload", func(f *Facts) { f.Uplink.Offloads = offloads(true, false) },
		"uplink_offloads", CostsThroughput, []string{"ethtool -K eth0 gro on"}},
	{"uplink segments in software", func(f *Facts) { f.Uplink.Offloads = offloads(false, true) },
		"uplink_offloads", Notice, []string{"in software", "ethtool -K eth0 tx-udp-segmentation on"}},
	{"IPv6 off", func(f *Facts) { f.IPv6 = platform.No; f.unknown("ipv6", errors.New("cannot assign requested address")) },
		"ipv6", Notice, []string{"cannot assign", "disable_ipv6=0"}},
	{"short backlog", func(f *Facts) { f.BacklogPackets = 100 },
		"backlog", CostsThroughput, []string{"sysctl -w net.core.netdev_max_backlog=1000"}},
	{"backlog has overflowed", func(f *Facts) { f.Softnet.Dropped = 7 },
		"backlog", Notice, []string{"7 dropped", "net.core.netdev_max_backlog=4000"}},
	{"drops in the past", func(f *Facts) { f.Counters.V4.RcvbufErrors, f.Counters.V6.MemErrors = 5, 6 },
		"past_drops", Notice, []string{"5 by full receive buffers", "6 by the memory limit"}},
	{"no CAP_NET_ADMIN", func(f *Facts) {
		f.NetAdmin, f.ForcedBuffers = platform.No, platform.Feature{Answer: platform.No}
	}, "cap_net_admin", OK, []string{"CAP_NET_ADMIN is missing"}},
	{"CAP_NET_ADMIN of a user namespace", func(f *Facts) {
		f.UserNamespace, f.ForcedBuffers = platform.No, platform.Feature{Answer: platform.No}
	}, "cap_net_admin", OK, []string{"in this user namespace only"}},
	{"no right to probe", func(f *Facts) { f.PerfmonRight = platform.No },
		"cap_bpf", Notice, []string{"missing: CAP_PERFMON", "AmbientCapabilities=CAP_BPF CAP_PERFMON"}},
	{"probe rights of a user namespace", func(f *Facts) { f.UserNamespace = platform.No },
		"cap_bpf", Notice, []string{"user namespace"}},
	{"CAP_SYS_ADMIN stands in", func(f *Facts) { f.PerfmonRight, f.BPFRight, f.SysAdmin = platform.No, platform.No, platform.Yes },
		"cap_bpf", OK, nil},
	{"no BTF", func(f *Facts) { f.BTF = platform.Feature{Answer: platform.No, Reason: "no /sys/kernel/btf/vmlinux"} },
		"btf", Notice, []string{"CONFIG_DEBUG_INFO_BTF"}},
	{"launchd's limit of files", func(f *Facts) { f.Kernel.OS = "darwin"; f.OpenFiles = &platform.Limit{Soft: 256, Hard: 256} },
		"open_files", Unsafe, []string{"256", "NumberOfFiles 65536"}},
	{"few files", func(f *Facts) { f.OpenFiles = &platform.Limit{Soft: 512, Hard: 512} },
		"open_files", Notice, []string{"LimitNOFILE=65536", "ulimit -n 65536"}},
	{"old kernel locks probe memory", func(f *Facts) {
		f.Kernel.Major, f.Kernel.Minor = 5, 10
		f.LockedMemory = &platform.Limit{Soft: 65536, Hard: 65536}
	}, "locked_memory", Notice, []string{"LimitMEMLOCK"}},
	{"one processor", func(f *Facts) { f.CPU.Allowed, f.GoMaxProcs = []int{3}, 1 },
		"processors", Notice, []string{"1 usable of 8"}},
	{"wider than the quota", func(f *Facts) { f.CPU.QuotaCores = 1.5 },
		"processors", Notice, []string{"quota 1.5", "GOMAXPROCS 8", "FELIX_WORKER_THREADS to at most 2"}},
}

func TestBadHosts(t *testing.T) {
	for _, c := range badHosts {
		t.Run(c.name, func(t *testing.T) {
			f := goodHost()
			c.spoil(&f)
			r := Evaluate(f)
			x, ok := r.Find(c.id)
			if !ok {
				t.Fatalf("no finding %s", c.id)
			}
			if x.Severity != c.severity {
				t.Errorf("severity %v, want %v: %+v", x.Severity, c.severity, x)
			}
			text, err := json.Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			said := strings.ReplaceAll(string(text), `\u0027`, "'")
			for _, want := range c.says {
				if !strings.Contains(said, want) {
					t.Errorf("%q is not said in %s", want, said)
				}
			}
			if x.Severity >= CostsThroughput && (x.Why == "" || x.Remedy == nil) {
				t.Errorf("grave, without reason or remedy: %+v", x)
			}
			if r.Severity < x.Severity {
				t.Errorf("report %v, finding %v", r.Severity, x.Severity)
			}
			if bad := r.Err() != nil; bad != (r.Severity >= CostsThroughput) {
				t.Errorf("severity %v, error %v", r.Severity, r.Err())
			}
		})
	}
}

// TestOtherFindingsStay: spoiling one property must not spoil unrelated ones.
func TestOtherFindingsStay(t *testing.T) {
	f := goodHost()
	f.BacklogPackets = 100
	r := Evaluate(f)
	if n := len(r.Findings) - r.Count(OK); n != 1 || r.Count(CostsThroughput) != 1 {
		t.Errorf("%d findings are not ok, %d cost throughput, want 1 and 1", n, r.Count(CostsThroughput))
	}
	var bad *DeficientError
	if !errors.As(r.Err(), &bad) || bad.Costs != 1 || bad.Unsafe != 0 {
		t.Errorf("error %v", r.Err())
	}
}

func TestDropInCollectsSettings(t *testing.T) {
	f := goodHost()
	f.Socket.Granted.Read = udp.Grant{Asked: 8 << 20, Granted: 212992, Limit: "net.core.rmem_max", LimitBytes: 212992}
	f.Socket.Granted.Write = udp.Grant{Asked: 8 << 20, Granted: 212992, Limit: "net.core.wmem_max", LimitBytes: 212992}
	f.UDPMemoryPages = []int64{1, 2, 3}
	r := Evaluate(f)
	const want = "# UDP settings for Felix, see: felix host check\n" +
		"net.core.rmem_max = 8388608\nnet.core.wmem_max = 8388608\nnet.ipv4.udp_mem = 8192 12288 16384\n"
	if r.DropIn == nil || r.DropIn.Content != want || r.DropIn.Path != "/etc/sysctl.d/90-felix.conf" {
		t.Errorf("got %+v", r.DropIn)
	}
	var b strings.Builder
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"/etc/sysctl.d/90-felix.conf", "    net.core.rmem_max = 8388608\n", "    sysctl -w net.core.wmem_max=8388608\n", "costs-throughput: receive buffer"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, b.String())
		}
	}
	// One setting bounds both directions on FreeBSD; it is listed once.
	f.Kernel.OS = "freebsd"
	f.Socket.Granted.Read.Limit, f.Socket.Granted.Write.Limit = "kern.ipc.maxsockbuf", "kern.ipc.maxsockbuf"
	if d := Evaluate(f).DropIn; d == nil || d.Path != "/etc/sysctl.conf" || strings.Count(d.Content, "kern.ipc.maxsockbuf=9437184\n") != 1 {
		t.Errorf("FreeBSD: %+v", d)
	}
	f.Kernel.OS = "darwin"
	if d := Evaluate(f).DropIn; d != nil {
		t.Errorf("macOS reads no such file: %+v", d)
	}
}

// TestBareFacts: what could not be found out must not look like a good host.
func TestBareFacts(t *testing.T) {
	for _, os := range []string{"linux", "darwin", "freebsd"} {
		r := Evaluate(Facts{Kernel: platform.KernelVersion{OS: os}})
		if r.Severity != Unsafe || r.Err() == nil {
			t.Errorf("%s: a host of which nothing is known is %v", os, r.Severity)
		}
		for _, f := range r.Findings {
			if f.Evidence == "" {
				t.Errorf("%s: %s without evidence", os, f.ID)
			}
		}
	}
}

func TestSeverityText(t *testing.T) {
	for s, want := range map[Severity]string{OK: "ok", Notice: "notice", CostsThroughput: "costs-throughput", Unsafe: "unsafe"} {
		b, err := s.MarshalText()
		if err != nil || string(b) != want {
			t.Errorf("%d: %s, %v", s, b, err)
		}
		var back Severity
		if err := back.UnmarshalText(b); err != nil || back != s {
			t.Errorf("%s: back %v, %v", b, back, err)
		}
	}
	var s Severity
	if err := s.UnmarshalText([]byte("bad")); err == nil {
		t.Error("an unknown severity was accepted")
	}
}
