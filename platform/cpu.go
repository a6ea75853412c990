package platform

// CPUInfo describes the processors that the process may use.
type CPUInfo struct {
	// Model as the system names it; "" where it does not.
	Model string `json:"model"`
	// Online processors of the host.
	Online int `json:"online"`
	// Allowed are the numbers of those the process may run on (its affinity
	// when this package first looked); nil where the system has no affinity.
	Allowed []int `json:"allowed,omitempty"`
	// QuotaCores is the CPU time a second that the control group grants, in
	// processors (1.5 = 150 %); 0: no quota.
	QuotaCores float64 `json:"quota_cores"`
}

// Usable is the number of processors' worth of time that the process can get:
// the smaller of affinity and quota, at least 1.
func (c CPUInfo) Usable() int {
	n := c.Online
	if len(c.Allowed) > 0 {
		n = len(c.Allowed)
	}
	if c.QuotaCores > 0 {
		n = min(n, int(c.QuotaCores+0.999))
	}
	return max(n, 1)
}

// CPUs returns the processors. What the host does not tell stays empty.
func CPUs() CPUInfo { return readCPUs() }
