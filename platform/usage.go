package platform

import "time"

// Usage is what the process has used so far.
type Usage struct {
	// User and System are CPU times of all threads.
	User   time.Duration `json:"user_ns"`
	System time.Duration `json:"system_ns"`
	// Voluntary switches happened because a thread waited, Involuntary ones
	// because its time was up or another was more urgent.
	Voluntary   int64 `json:"voluntary_switches"`
	Involuntary int64 `json:"involuntary_switches"`
}

// Sub returns what was used since the earlier reading o.
func (u Usage) Sub(o Usage) Usage {
	return Usage{
		User:        u.User - o.User,
		System:      u.System - o.System,
		Voluntary:   u.Voluntary - o.Voluntary,
		Involuntary: u.Involuntary - o.Involuntary,
	}
}

// ProcessUsage reads the process's use of CPU (getrusage). One system call;
// [ErrNotSupported] where there is none.
func ProcessUsage() (Usage, error) { return processUsage() }
