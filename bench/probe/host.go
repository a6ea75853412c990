package probe

import "felix/platform"

// Host is where it was measured. All processes of a probe and the rest of the
// host share its processors.
type Host struct {
	Kernel     string  `json:"kernel"`
	CPUModel   string  `json:"cpu_model"`
	CPUs       int     `json:"shared_cpus"`
	QuotaCores float64 `json:"quota_cores"` // 0: no quota
}

// ThisHost describes the host of this process.
func ThisHost() Host {
	cpus := platform.CPUs()
	return Host{
		Kernel: platform.Kernel().String(), CPUModel: cpus.Model,
		CPUs: cpus.Usable(), QuotaCores: cpus.QuotaCores,
	}
}
