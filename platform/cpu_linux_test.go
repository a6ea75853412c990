package platform

import "testing"

func TestCPUQuota(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  float64
	}{
		{"nothing known", nil, 0},
		{"version 2, no quota", map[string]string{
			"proc/self/cgroup":             "0::/app\n",
			"sys/fs/cgroup/app/cpu.max":    "max 100000\n",
			"sys/fs/cgroup/other/cpu.max":  "10000 100000\n",
			"sys/fs/cgroup/app/sub/unused": "",
		}, 0},
		{"version 2, own quota", map[string]string{
			"proc/self/cgroup":          "0::/app\n",
			"sys/fs/cgroup/app/cpu.max": "150000 100000\n",
		}, 1.5},
		{"version 2, narrower above", map[string]string{
			"proc/self/cgroup":                "0::/pod/app\n",
			"sys/fs/cgroup/pod/app/cpu.max":   "400000 100000\n",
			"sys/fs/cgroup/pod/cpu.max":       "50000 100000\n",
			"sys/fs/cgroup/cpu.max":           "max 100000\n",
			"sys/fs/cgroup/cpu/pod/something": "",
		}, 0.5},
		{"version 2, in a namespace", map[string]string{
			"proc/self/cgroup":      "0::/\n",
			"sys/fs/cgroup/cpu.max": "200000 100000\n",
		}, 2},
		{"version 1", map[string]string{
			"proc/self/cgroup":                        "5:cpu,cpuacct:/app\n3:cpuset:/app\n",
			"sys/fs/cgroup/cpu/app/cpu.cfs_quota_us":  "250000\n",
			"sys/fs/cgroup/cpu/app/cpu.cfs_period_us": "100000\n",
		}, 2.5},
		{"version 1, none", map[string]string{
			"proc/self/cgroup":                        "5:cpu:/app\n",
			"sys/fs/cgroup/cpu/app/cpu.cfs_quota_us":  "-1\n",
			"sys/fs/cgroup/cpu/app/cpu.cfs_period_us": "100000\n",
		}, 0},
		{"another controller's group", map[string]string{
			"proc/self/cgroup":                        "5:cpuset:/app\n",
			"sys/fs/cgroup/cpu/app/cpu.cfs_quota_us":  "250000\n",
			"sys/fs/cgroup/cpu/app/cpu.cfs_period_us": "100000\n",
		}, 0},
		{"malformed", map[string]string{
			"proc/self/cgroup":      "x\n0::/\n",
			"sys/fs/cgroup/cpu.max": "lots of it\n",
		}, 0},
	} {
		if got := fakeRoot(t, c.files).cpuQuota(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestCPUModelAndCount(t *testing.T) {
	r := fakeRoot(t, map[string]string{
		"proc/cpuinfo":                  "processor\t: 0\nmodel name\t: AMD EPYC\n\nprocessor\t: 1\nmodel name\t: other\n",
		"sys/devices/system/cpu/online": "0-3,8\n",
	})
	info := r.cpus()
	if info.Model != "AMD EPYC" || info.Online != 5 {
		t.Errorf("got %+v", info)
	}
	arm := "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n"
	if got := cpuModel(arm); got != "ARM implementer 0x41 part 0xd40" {
		t.Errorf("arm64: %q", got)
	}
	if got := cpuModel("nonsense\n"); got != "" {
		t.Errorf("no model: %q", got)
	}
	for text, want := range map[string]int{"0": 1, "0-1": 2, "0,2,4-7\n": 6, "": 0, "3-1": 0, "a": 0, "1-b": 0} {
		if got := countCPUList(text); got != want {
			t.Errorf("list %q: %d, want %d", text, got, want)
		}
	}
}

func TestUsableCPUs(t *testing.T) {
	for _, c := range []struct {
		info CPUInfo
		want int
	}{
		{CPUInfo{Online: 8}, 8},
		{CPUInfo{Online: 8, Allowed: []int{0, 5}}, 2},
		{CPUInfo{Online: 8, QuotaCores: 1.5}, 2},
		{CPUInfo{Online: 8, Allowed: []int{0, 5}, QuotaCores: 4}, 2},
		{CPUInfo{Online: 8, QuotaCores: 0.1}, 1},
		{CPUInfo{}, 1},
	} {
		if got := c.info.Usable(); got != c.want {
			t.Errorf("%+v: %d, want %d", c.info, got, c.want)
		}
	}
	here := CPUs()
	if here.Online < 1 || len(here.Allowed) < 1 || here.Usable() > here.Online {
		t.Errorf("this host: %+v", here)
	}
}
