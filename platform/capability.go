package platform

import "strconv"

// Capability is a Linux capability number (capabilities(7)).
type Capability uint

// The capabilities that Felix can make use of.
const (
	// CapDACReadSearch: read tracefs where it is readable by root only.
	CapDACReadSearch Capability = 2
	// CapNetAdmin: socket buffers beyond the sysctl limits, device settings.
	CapNetAdmin Capability = 12
	// CapIPCLock: lock memory beyond the limit.
	CapIPCLock Capability = 14
	// CapSysAdmin: stands in for CapBPF and CapPerfmon before Linux 5.8.
	CapSysAdmin Capability = 21
	// CapSysNice: affinity and priority of other processes' threads.
	CapSysNice Capability = 23
	// CapSysResource: raise hard limits.
	CapSysResource Capability = 24
	// CapPerfmon: tracing programs (Linux 5.8).
	CapPerfmon Capability = 38
	// CapBPF: BPF maps and programs (Linux 5.8).
	CapBPF Capability = 39
)

var capabilityNames = map[Capability]string{
	CapDACReadSearch: "CAP_DAC_READ_SEARCH",
	CapNetAdmin:      "CAP_NET_ADMIN",
	CapIPCLock:       "CAP_IPC_LOCK",
	CapSysAdmin:      "CAP_SYS_ADMIN",
	CapSysNice:       "CAP_SYS_NICE",
	CapSysResource:   "CAP_SYS_RESOURCE",
	CapPerfmon:       "CAP_PERFMON",
	CapBPF:           "CAP_BPF",
}

// String returns the name of the header file, such as "CAP_NET_ADMIN".
func (c Capability) String() string {
	if n, ok := capabilityNames[c]; ok {
		return n
	}
	return "CAP_" + strconv.Itoa(int(c))
}

// HasCapability reports whether the effective set of the calling thread holds
// c. In a user namespace that is not the initial one, Yes means a right over
// that namespace only: see [InitialUserNamespace]. It is asked anew at each
// call, since rights can be dropped. Systems without capabilities answer No.
func HasCapability(c Capability) Answer { return hasCapability(c) }

// InitialUserNamespace reports whether the process is in the host's first user
// namespace, where capabilities are rights over the host. Systems without user
// namespaces answer Yes.
func InitialUserNamespace() Answer { return initialUserNamespace() }

// InitialNetNamespace reports whether the calling thread is in the host's first
// network namespace, which alone shows all of the host's network settings.
// Systems without network namespaces answer Yes.
func InitialNetNamespace() Answer { return initialNetNamespace() }
