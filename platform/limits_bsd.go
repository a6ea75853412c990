//go:build darwin || freebsd

package platform

// One setting bounds both directions.
const (
	readLimitSysctl  = "kern.ipc.maxsockbuf"
	writeLimitSysctl = "kern.ipc.maxsockbuf"
)
