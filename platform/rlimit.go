package platform

// Limit is a resource limit of the process. Unlimited stands for no limit.
type Limit struct {
	// Soft is in force; Hard is how far Soft may be raised without rights.
	Soft uint64 `json:"soft"`
	Hard uint64 `json:"hard"`
}

// Unlimited is the value of a [Limit] that does not limit, on every system.
const Unlimited = ^uint64(0)

// OpenFileLimit returns the limit of open descriptors. The Go runtime raises
// the soft limit to the hard one at start, and gives child processes back the
// original. launchd starts daemons with 256.
func OpenFileLimit() (Limit, error) { return openFileLimit() }

// LockedMemoryLimit returns the limit of locked memory in bytes, which on
// Linux before 5.11 also bounds BPF maps.
func LockedMemoryLimit() (Limit, error) { return lockedMemoryLimit() }
