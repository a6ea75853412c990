package platform

const (
	readLimitSysctl  = "net.core.rmem_max"
	writeLimitSysctl = "net.core.wmem_max"
)
