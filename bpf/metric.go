package bpf

// Metric names one thing that is measured. It is attached, and can fail, by
// itself.
type Metric string

const (
	// MetricWakeups: wakeups of this process's threads by the system call that
	// the thread slept in, and by who woke it.
	MetricWakeups Metric = "wakeups"
	// MetricCPUTime: how long threads wait for a CPU, run, and sleep.
	MetricCPUTime Metric = "cpu_time"
	// MetricSends: UDP sends, and the refused ones by errno.
	MetricSends Metric = "sends"
	// MetricReceives: UDP receives by socket, and how many a wakeup brings.
	MetricReceives Metric = "receives"
	// MetricGRO: datagrams that the kernel merged before this process read them.
	MetricGRO Metric = "gro"
	// MetricDrops: datagrams dropped at the receive buffer of a watched socket.
	MetricDrops Metric = "drops"
)

// Metrics lists all metrics in the order in which [Status] reports them.
func Metrics() []Metric {
	return []Metric{MetricWakeups, MetricCPUTime, MetricSends, MetricReceives, MetricGRO, MetricDrops}
}
