//go:build !linux && !darwin && !freebsd

package platform

// The setting is not known here.
const (
	readLimitSysctl  = ""
	writeLimitSysctl = ""
)
