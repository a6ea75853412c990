package platform

// PinThread locks the calling goroutine to its operating-system thread and
// places that thread:
//
//   - Linux: it runs on the given CPU only (sched_setaffinity).
//   - macOS, which has no affinity: the thread gets the QoS class
//     user-interactive, so that the scheduler prefers performance cores; cpu is
//     only checked for being >= 0.
//   - elsewhere: nothing is done, [ErrNotSupported].
//
// On success call unpin on the same goroutine: it restores the thread's former
// placement and unlocks it. A goroutine that ends without calling it takes its
// thread with it, which is also safe. On error nothing was changed.
//
// Pinning is a lever with a measured effect in both directions; callers keep
// it off by default.
func PinThread(cpu int) (unpin func(), err error) { return pinThread(cpu) }
