package platform

import (
	"path"
	"runtime"
	"strconv"
	"strings"
)

func readCPUs() CPUInfo { return realRoot.cpus() }

func (r hostRoot) cpus() CPUInfo {
	info := CPUInfo{Online: runtime.NumCPU(), QuotaCores: r.cpuQuota()}
	if allowed, err := threadCPUs(); err == nil {
		info.Allowed = allowed
	}
	if text, err := r.read("proc/cpuinfo"); err == nil {
		info.Model = cpuModel(text)
	}
	if text, err := r.read("sys/devices/system/cpu/online"); err == nil {
		if n := countCPUList(text); n > 0 {
			info.Online = n
		}
	}
	return info
}

// cpuModel takes the first model of /proc/cpuinfo. x86 says "model name";
// arm64 gives only the part number of its designer.
func cpuModel(text string) string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, ":")
		key = strings.TrimSpace(key)
		if _, seen := fields[key]; ok && !seen {
			fields[key] = strings.TrimSpace(value)
		}
	}
	if m := fields["model name"]; m != "" {
		return m
	}
	if part := fields["CPU part"]; part != "" {
		return "ARM implementer " + fields["CPU implementer"] + " part " + part
	}
	return ""
}

// countCPUList counts the members of a list like "0-3,8".
func countCPUList(text string) int {
	n := 0
	for item := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		first, last, isRange := strings.Cut(item, "-")
		lo, err := strconv.Atoi(first)
		if err != nil {
			return 0
		}
		hi := lo
		if isRange {
			if hi, err = strconv.Atoi(last); err != nil || hi < lo {
				return 0
			}
		}
		n += hi - lo + 1
	}
	return n
}

// cpuQuota returns the narrowest quota from the process's control group up to
// the root, in processors; 0 if there is none.
func (r hostRoot) cpuQuota() float64 {
	text, err := r.read("proc/self/cgroup")
	if err != nil {
		return 0
	}
	quota := 0.0
	for line := range strings.Lines(text) {
		// "hierarchy:controllers:path"; controllers are empty in version 2.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[1] == "":
			quota = narrower(quota, r.quotaAbove("sys/fs/cgroup", parts[2], r.quotaV2))
		case hasField(parts[1], "cpu"):
			quota = narrower(quota, r.quotaAbove("sys/fs/cgroup/cpu", parts[2], r.quotaV1))
		}
	}
	return quota
}

func hasField(list, want string) bool {
	for f := range strings.SplitSeq(list, ",") {
		if f == want {
			return true
		}
	}
	return false
}

func narrower(a, b float64) float64 {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	}
	return min(a, b)
}

// quotaAbove asks each group from group up to the root of its hierarchy.
func (r hostRoot) quotaAbove(mount, group string, ask func(dir string) float64) float64 {
	quota := 0.0
	for group = path.Clean("/" + group); ; group = path.Dir(group) {
		quota = narrower(quota, ask(path.Join(mount, group)))
		if group == "/" {
			return quota
		}
	}
}

// quotaV2 reads cpu.max, "max 100000" or "150000 100000": time and period.
func (r hostRoot) quotaV2(dir string) float64 {
	text, err := r.read(path.Join(dir, "cpu.max"))
	if err != nil {
		return 0
	}
	quota, period, _ := strings.Cut(strings.TrimSpace(text), " ")
	return cores(quota, period)
}

// quotaV1 reads the two files of version 1; a quota of -1 means none.
func (r hostRoot) quotaV1(dir string) float64 {
	quota, err := r.read(path.Join(dir, "cpu.cfs_quota_us"))
	if err != nil {
		return 0
	}
	period, err := r.read(path.Join(dir, "cpu.cfs_period_us"))
	if err != nil {
		return 0
	}
	return cores(strings.TrimSpace(quota), strings.TrimSpace(period))
}

func cores(quota, period string) float64 {
	q, err := strconv.ParseFloat(quota, 64)
	if err != nil || q <= 0 {
		return 0 // "max", "-1"
	}
	p, err := strconv.ParseFloat(period, 64)
	if err != nil || p <= 0 {
		return 0
	}
	return q / p
}
