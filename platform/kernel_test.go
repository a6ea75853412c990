package platform

import (
	"runtime"
	"testing"
)

func TestParseRelease(t *testing.T) {
	for _, c := range []struct {
		in                  string
		major, minor, patch int
		bad                 bool
	}{
		{in: "6.18.44-fc-v669", major: 6, minor: 18, patch: 44},
		{in: "5.15.0-105-generic", major: 5, minor: 15},
		{in: "6.9-rc5", major: 6, minor: 9},
		{in: "4.18", major: 4, minor: 18},
		{in: "7", major: 7},
		{in: "24.1.0", major: 24, minor: 1},
		{in: "14.1-RELEASE-p3", major: 14, minor: 1},
		{in: "6.", major: 6},
		{in: "", bad: true},
		{in: "linux", bad: true},
		{in: "99999999999999999999.1", bad: true},
	} {
		k, err := ParseRelease(c.in)
		if (err != nil) != c.bad {
			t.Errorf("%q: error %v, want one: %v", c.in, err, c.bad)
		}
		if k.Major != c.major || k.Minor != c.minor || k.Patch != c.patch {
			t.Errorf("%q: %d.%d.%d, want %d.%d.%d", c.in, k.Major, k.Minor, k.Patch, c.major, c.minor, c.patch)
		}
	}
}

func TestAtLeast(t *testing.T) {
	k := KernelVersion{Major: 5, Minor: 10}
	for _, c := range []struct {
		major, minor int
		want         bool
	}{{5, 10, true}, {5, 9, true}, {4, 99, true}, {5, 11, false}, {6, 0, false}} {
		if got := k.AtLeast(c.major, c.minor); got != c.want {
			t.Errorf("5.10 at least %d.%d: %v", c.major, c.minor, got)
		}
	}
	if (KernelVersion{}).AtLeast(1, 0) {
		t.Error("an unknown version claims to be 1.0")
	}
}

func TestKernelOfThisHost(t *testing.T) {
	k := Kernel()
	if k.OS != runtime.GOOS {
		t.Errorf("system %q, want %q", k.OS, runtime.GOOS)
	}
	if runtime.GOOS == "linux" && !k.AtLeast(3, 2) {
		t.Errorf("%v is older than what Go runs on", k)
	}
}
