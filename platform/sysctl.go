package platform

import (
	"fmt"
	"strconv"
	"strings"
)

// Sysctl returns a kernel setting by its dotted name ("net.core.rmem_max",
// "kern.ipc.maxsockbuf") as text without the final newline. On Linux names
// under net. are those of the calling thread's network namespace; a namespace
// other than the initial one lacks some, which gives an error that wraps
// [io/fs.ErrNotExist]. Elsewhere an unknown name gives the system's own error.
func Sysctl(name string) (string, error) { return readSysctl(name) }

// SysctlInt is [Sysctl] for a setting that is one integer.
func SysctlInt(name string) (int64, error) {
	v, err := SysctlInts(name)
	if err != nil {
		return 0, err
	}
	if len(v) != 1 {
		return 0, fmt.Errorf("sysctl %s: %d numbers, want one", name, len(v))
	}
	return v[0], nil
}

// SysctlInts is [Sysctl] for a setting that is a list of integers, such as
// net.ipv4.udp_mem (low, pressure, high, in pages).
func SysctlInts(name string) ([]int64, error) {
	text, err := Sysctl(name)
	if err != nil {
		return nil, err
	}
	return parseInts(name, text)
}

func parseInts(name, text string) ([]int64, error) {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return nil, fmt.Errorf("sysctl %s: empty", name)
	}
	out := make([]int64, len(fields))
	for i, f := range fields {
		v, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("sysctl %s: %w", name, err)
		}
		out[i] = v
	}
	return out, nil
}
