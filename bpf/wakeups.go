package bpf

// Cause is what a thread slept in when it was woken.
type Cause string

// The causes. In a Go program, epoll is the network poller waiting for packets
// and timers, futex an idle thread being started, timer the runtime's monitor.
const (
	CauseEpoll   Cause = "epoll"
	CauseFutex   Cause = "futex"
	CauseTimer   Cause = "timer"   // nanosleep, clock_nanosleep
	CauseReceive Cause = "receive" // recvfrom, recvmsg, recvmmsg
	CauseSend    Cause = "send"    // sendto, sendmsg, sendmmsg
	CauseFile    Cause = "file"    // read, write, fsync, fdatasync
	CausePoll    Cause = "poll"    // poll, select and their kin
	CauseOther   Cause = "other"   // another system call
	// CauseNone: no system call, for instance a page fault.
	CauseNone Cause = "no_syscall"
	// CauseUnknown: a kernel before 5.15 does not tell.
	CauseUnknown Cause = "unknown"
)

// Waker is who woke a thread.
type Waker string

const (
	// WakerSelf: a thread of this process was running on the CPU. An interrupt
	// that hit it at that moment counts here, too.
	WakerSelf Waker = "self"
	// WakerOther: another process, or an interrupt.
	WakerOther Waker = "other"
)

// WakeupCount counts the wakeups of one kind.
type WakeupCount struct {
	Cause Cause `json:"cause"`
	Waker Waker `json:"waker"`
	// Syscall is the call's name, "syscall N" for one without a name here, and
	// empty for CauseNone and CauseUnknown.
	Syscall string `json:"syscall,omitempty"`
	Count   uint64 `json:"count"`
}

// Wakeups are the wakeups of this process's threads, counted when the kernel
// starts to wake one (tracepoint sched_waking).
type Wakeups struct {
	Total uint64 `json:"total"`
	// By is ordered by falling count.
	By []WakeupCount `json:"by"`
}

// Count returns the wakeups of one cause, whoever woke.
func (w *Wakeups) Count(c Cause) uint64 {
	var n uint64
	for _, e := range w.By {
		if e.Cause == c {
			n += e.Count
		}
	}
	return n
}

func (w *Wakeups) sub(o *Wakeups) *Wakeups {
	return &Wakeups{
		Total: since(w.Total, o.Total),
		By: subtract(w.By, o.By,
			func(e WakeupCount) WakeupCount { e.Count = 0; return e },
			func(a, b WakeupCount) (WakeupCount, bool) {
				a.Count = since(a.Count, b.Count)
				return a, a.Count > 0
			}),
	}
}
