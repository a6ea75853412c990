package bpf

import "time"

// Attachment is the way a metric gets at its events.
type Attachment string

const (
	// AttachNone: the metric is off.
	AttachNone Attachment = ""
	// AttachTracepoint: BTF tracepoints made for the purpose (tp_btf). Exact.
	AttachTracepoint Attachment = "tp_btf"
	// AttachSyscallExit: the end of system calls (tp_btf/sys_exit), for kernels
	// before 6.3. It does not see the errno of a later message of a sendmmsg,
	// write(2) and read(2) on sockets, nor io_uring, and costs each system call
	// of every process on the host 0.1 µs.
	AttachSyscallExit Attachment = "sys_exit"
)

// MetricStatus tells whether one metric is measured.
type MetricStatus struct {
	Metric Metric `json:"metric"`
	// On: the programs are attached.
	On bool `json:"on"`
	// Attachment is how, empty when off.
	Attachment Attachment `json:"attachment,omitempty"`
	// Limits is one phrase on what this attachment cannot tell, empty if
	// nothing.
	Limits string `json:"limits,omitempty"`
	// Programs are the kernel's names and ids of the attached programs.
	Programs []Program `json:"programs,omitempty"`
	// Since is when it was attached; its counters started at 0 then.
	Since time.Time `json:"since,omitzero"`
	// Reason is why it is off, nil when on.
	Reason *Reason `json:"reason,omitempty"`
}

// Program names a loaded BPF program as bpftool does.
type Program struct {
	Name string `json:"name"`
	// ID is the kernel's id, 0 where the kernel does not tell.
	ID uint32 `json:"id,omitempty"`
}

// PinStatus tells about pinned maps.
type PinStatus struct {
	// Dir is the directory that was asked for, empty without pins.
	Dir string `json:"dir,omitempty"`
	// Paths are the pins that exist now.
	Paths []string `json:"paths,omitempty"`
	// Stale are pins that an earlier Felix left when it was killed. Open found
	// and removed them; ours took their place.
	Stale []string `json:"stale,omitempty"`
	// Foreign are paths that something else than a map of ours occupies. It was
	// left alone and our map is not pinned.
	Foreign []string `json:"foreign,omitempty"`
	// Reason is why pins that were asked for are missing, nil if none is.
	Reason *Reason `json:"reason,omitempty"`
}

// Status says what is measured and what is not.
type Status struct {
	Mode Mode `json:"mode"`
	// Metrics has one entry for each of [Metrics], in that order.
	Metrics []MetricStatus `json:"metrics"`
	Pins    PinStatus      `json:"pins"`
	// RunStats tells whether the kernel measures what programs cost; see
	// [Probes.SetRunStats].
	RunStats bool `json:"run_stats"`
	// RunStatsReason is why run statistics that were asked for are off.
	RunStatsReason *Reason `json:"run_stats_reason,omitempty"`
}

// Metric returns the entry of one metric.
func (s Status) Metric(m Metric) MetricStatus {
	for _, e := range s.Metrics {
		if e.Metric == m {
			return e
		}
	}
	return MetricStatus{Metric: m}
}
