package platform

// SoftnetStats are the sums over all CPUs of what happened to packets between
// a device (loopback included) and the network stack. They are the host's, not
// a namespace's.
type SoftnetStats struct {
	// Processed packets.
	Processed uint64 `json:"processed"`
	// Dropped because a CPU's backlog was full: net.core.netdev_max_backlog.
	// No protocol counts these.
	Dropped uint64 `json:"dropped"`
	// Squeezed: times that the softirq stopped with work left.
	Squeezed uint64 `json:"squeezed"`
}

// Sub returns what was counted since the earlier snapshot o; the counters are
// 32 bits wide in the kernel, so one that went backwards gives 0.
func (s SoftnetStats) Sub(o SoftnetStats) SoftnetStats {
	return SoftnetStats{
		Processed: since(s.Processed, o.Processed),
		Dropped:   since(s.Dropped, o.Dropped),
		Squeezed:  since(s.Squeezed, o.Squeezed),
	}
}

func since(now, before uint64) uint64 {
	if now < before {
		return 0
	}
	return now - before
}

// Softnet takes a snapshot from /proc/net/softnet_stat. Linux only, elsewhere
// [ErrNotSupported].
func Softnet() (SoftnetStats, error) { return readSoftnet() }
