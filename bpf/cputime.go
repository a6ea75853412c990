package bpf

import "time"

// CPUTime tells how the threads of this process spend their time. Every moment
// of a thread belongs to one of RunQueue, OnCPU and Asleep; a stretch is
// counted when it ends. Histograms are in nanoseconds.
type CPUTime struct {
	// RunQueue: ready to run and waiting for a CPU. The sum is what the second
	// field of /proc/PID/schedstat counts.
	RunQueue Histogram `json:"run_queue_ns"`
	// OnCPU: running, from getting a CPU to leaving it.
	OnCPU Histogram `json:"on_cpu_ns"`
	// Asleep: from leaving the CPU to wait for something until being woken.
	Asleep Histogram `json:"asleep_ns"`
	// Preemptions are the times a thread left its CPU although it could go on.
	Preemptions uint64 `json:"preemptions"`
	// Untracked are events of threads beyond the 2048 that fit.
	Untracked uint64 `json:"untracked"`
	// Threads are the threads that live now, ordered by falling run-queue time.
	Threads []ThreadTime `json:"threads"`
}

// ThreadTime is one thread since the metric is attached. The stretch that the
// thread is in at the moment is included.
type ThreadTime struct {
	// TID is the thread's id in the host's first PID namespace.
	TID         int           `json:"tid"`
	RunQueue    time.Duration `json:"run_queue_ns"`
	OnCPU       time.Duration `json:"on_cpu_ns"`
	Asleep      time.Duration `json:"asleep_ns"`
	Runs        uint64        `json:"runs"`
	Preemptions uint64        `json:"preemptions"`
}

func (c *CPUTime) sub(o *CPUTime) *CPUTime {
	return &CPUTime{
		RunQueue:    c.RunQueue.Sub(o.RunQueue),
		OnCPU:       c.OnCPU.Sub(o.OnCPU),
		Asleep:      c.Asleep.Sub(o.Asleep),
		Preemptions: since(c.Preemptions, o.Preemptions),
		Untracked:   since(c.Untracked, o.Untracked),
		Threads: subtract(c.Threads, o.Threads,
			func(t ThreadTime) int { return t.TID }, subThread),
	}
}

func subThread(a, b ThreadTime) (ThreadTime, bool) {
	return ThreadTime{
		TID:         a.TID,
		RunQueue:    max(a.RunQueue-b.RunQueue, 0),
		OnCPU:       max(a.OnCPU-b.OnCPU, 0),
		Asleep:      max(a.Asleep-b.Asleep, 0),
		Runs:        since(a.Runs, b.Runs),
		Preemptions: since(a.Preemptions, b.Preemptions),
	}, true
}
