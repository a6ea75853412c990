//go:build darwin || freebsd

package platform

import "runtime"

// readCPUs has neither affinity nor quota to tell.
func readCPUs() CPUInfo {
	info := CPUInfo{Online: runtime.NumCPU()}
	if model, err := readSysctl(modelSysctl); err == nil {
		info.Model = model
	}
	return info
}
