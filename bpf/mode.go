package bpf

import "fmt"

// Mode says which metrics are wanted. The zero value is ModeOff.
type Mode uint8

const (
	// ModeOff: nothing is loaded into the kernel and nothing costs.
	ModeOff Mode = iota
	// ModeSched: wakeups and CPU time. The host pays some 0.2 µs for each
	// context switch, whoever switches.
	ModeSched
	// ModeFull: everything. Each datagram call of this process pays some
	// 0.2 µs more.
	ModeFull
)

// String returns off, sched or full.
func (m Mode) String() string {
	switch m {
	case ModeOff:
		return "off"
	case ModeSched:
		return "sched"
	case ModeFull:
		return "full"
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// ParseMode is the inverse of [Mode.String]. It accepts exactly off, sched and
// full.
func ParseMode(s string) (Mode, error) {
	for _, m := range [...]Mode{ModeOff, ModeSched, ModeFull} {
		if s == m.String() {
			return m, nil
		}
	}
	return ModeOff, fmt.Errorf("probes %q: want off, sched or full", s)
}

// MarshalText writes the form of [Mode.String].
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads the form of [Mode.String].
func (m *Mode) UnmarshalText(b []byte) error {
	v, err := ParseMode(string(b))
	if err == nil {
		*m = v
	}
	return err
}

// has reports whether the mode asks for the metric.
func (m Mode) has(metric Metric) bool {
	switch m {
	case ModeFull:
		return true
	case ModeSched:
		return metric == MetricWakeups || metric == MetricCPUTime
	default:
		return false
	}
}
