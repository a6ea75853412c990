package platform

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// KernelVersion is the running kernel. On macOS it is the Darwin version
// (24.x is macOS 15), not the product version.
type KernelVersion struct {
	// OS is the system's name in lower case: "linux", "darwin", ...
	OS string `json:"os"`
	// Release is the unparsed release, as `uname -r` prints it.
	Release string `json:"release"`
	// Major, Minor and Patch are the leading numbers; 0 where absent.
	Major int `json:"major"`
	Minor int `json:"minor"`
	Patch int `json:"patch"`
}

// AtLeast reports whether the kernel is major.minor or newer. It is false for
// a version that could not be parsed.
func (k KernelVersion) AtLeast(major, minor int) bool {
	if k.Major != major {
		return k.Major > major
	}
	return k.Minor >= minor
}

// String returns "linux 6.18.0-rc1"; "unknown" for the zero value.
func (k KernelVersion) String() string {
	if k.OS == "" && k.Release == "" {
		return "unknown"
	}
	return strings.TrimSpace(k.OS + " " + k.Release)
}

// Kernel returns the running kernel. It is asked once; a system that does not
// tell gives the zero value but for OS.
func Kernel() KernelVersion { return kernelOnce() }

var kernelOnce = sync.OnceValue(func() KernelVersion {
	k, err := ParseRelease(kernelRelease())
	if err != nil {
		k = KernelVersion{}
	}
	k.OS = osName
	return k
})

// ParseRelease reads the numbers that a release string such as
// "5.15.0-105-generic", "6.18" or "24.1.0" starts with. At least the major
// version must be there.
func ParseRelease(release string) (KernelVersion, error) {
	k := KernelVersion{Release: release}
	rest := release
	for i, dst := range []*int{&k.Major, &k.Minor, &k.Patch} {
		n := 0
		for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
			n++
		}
		if n == 0 {
			if i == 0 {
				return KernelVersion{}, fmt.Errorf("kernel release %q: no version number", release)
			}
			break
		}
		v, err := strconv.Atoi(rest[:n])
		if err != nil {
			return KernelVersion{}, fmt.Errorf("kernel release %q: %w", release, err)
		}
		*dst = v
		if n == len(rest) || rest[n] != '.' {
			break
		}
		rest = rest[n+1:]
	}
	return k, nil
}
