package bpf

import "time"

// Snapshot is the state of all counters. A metric that is off is nil. Counters
// start at 0 when their metric attaches.
//
// Maps are read one after the other while events go on: values of different
// metrics, and the parts of one that is busy, are microseconds apart.
type Snapshot struct {
	Taken time.Time `json:"taken"`
	Mode  Mode      `json:"mode"`
	// Attached is, for each metric that is on, when it was attached. A snapshot
	// made by Sub keeps those of the later one.
	Attached map[Metric]time.Time `json:"attached"`
	Wakeups  *Wakeups             `json:"wakeups,omitempty"`
	CPUTime  *CPUTime             `json:"cpu_time,omitempty"`
	Sends    *Sends               `json:"sends,omitempty"`
	Receives *Receives            `json:"receives,omitempty"`
	GRO      *GRO                 `json:"gro,omitempty"`
	Drops    *Drops               `json:"drops,omitempty"`
	Overhead Overhead             `json:"overhead"`
}

// Sub returns what was counted since the earlier snapshot. A metric that
// attached in between keeps all it has counted.
func (s Snapshot) Sub(earlier Snapshot) Snapshot {
	d := s
	if s.continues(MetricWakeups, earlier) {
		d.Wakeups = s.Wakeups.sub(earlier.Wakeups)
	}
	if s.continues(MetricCPUTime, earlier) {
		d.CPUTime = s.CPUTime.sub(earlier.CPUTime)
	}
	if s.continues(MetricSends, earlier) {
		d.Sends = s.Sends.sub(earlier.Sends)
	}
	if s.continues(MetricReceives, earlier) {
		d.Receives = s.Receives.sub(earlier.Receives)
	}
	if s.continues(MetricGRO, earlier) {
		d.GRO = s.GRO.sub(earlier.GRO)
	}
	if s.continues(MetricDrops, earlier) {
		d.Drops = s.Drops.sub(earlier.Drops)
	}
	d.Overhead = s.Overhead.sub(earlier.Overhead)
	return d
}

// continues reports whether the metric has counted from the earlier snapshot to
// this one.
func (s Snapshot) continues(m Metric, earlier Snapshot) bool {
	now, on := s.Attached[m]
	before, was := earlier.Attached[m]
	return on && was && now.Equal(before)
}

// Overhead is what the programs themselves cost.
type Overhead struct {
	// Measured: the kernel counts runs and time, see [Probes.SetRunStats].
	// Without it Runs and Time are 0.
	Measured bool          `json:"measured"`
	Programs []ProgramCost `json:"programs"`
}

// ProgramCost is one attached program.
type ProgramCost struct {
	Metric Metric `json:"metric"`
	Program
	Runs uint64 `json:"runs"`
	// Time is the time spent in the program on all CPUs, events of other
	// processes included.
	Time time.Duration `json:"time_ns"`
	// Misses are events that were not counted because the program was already
	// running on that CPU. They make the metric inexact; 0 in all our tests.
	Misses uint64 `json:"misses"`
}

// Time returns the sum over all programs.
func (o Overhead) Time() time.Duration {
	var sum time.Duration
	for _, p := range o.Programs {
		sum += p.Time
	}
	return sum
}

func (o Overhead) sub(earlier Overhead) Overhead {
	return Overhead{Measured: o.Measured, Programs: subtract(o.Programs, earlier.Programs,
		func(c ProgramCost) Program { return c.Program },
		func(a, b ProgramCost) (ProgramCost, bool) {
			a.Runs = since(a.Runs, b.Runs)
			a.Time = max(a.Time-b.Time, 0)
			a.Misses = since(a.Misses, b.Misses)
			return a, true
		})}
}
