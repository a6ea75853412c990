package platform

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestPinThread(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := threadCPUs()
	if err != nil {
		t.Fatal(err)
	}
	tid := unix.Gettid()
	cpu := before[len(before)-1]
	unpin, err := PinThread(cpu)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := threadCPUs(); err != nil || !slices.Equal(got, []int{cpu}) {
		t.Errorf("pinned to %v, %v, want %d alone", got, err, cpu)
	}
	unpin()
	if unix.Gettid() != tid {
		t.Fatal("the test lost its thread")
	}
	if got, err := threadCPUs(); err != nil || !slices.Equal(got, before) {
		t.Errorf("after unpin %v, %v, want %v", got, err, before)
	}
}

func TestPinThreadRefuses(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := threadCPUs()
	if err != nil {
		t.Fatal(err)
	}
	for _, cpu := range []int{-1, maxCPU, maxCPU - 1} { // the last is in range but not online
		if unpin, err := PinThread(cpu); err == nil || unpin != nil {
			t.Errorf("cpu %d: %v", cpu, err)
		}
	}
	if got, err := threadCPUs(); err != nil || !slices.Equal(got, before) {
		t.Errorf("a refused pin changed the affinity: %v, %v, want %v", got, err, before)
	}
}

// TestEndedGoroutineTakesItsPinAlong: a goroutine that ends without unpinning
// must not leave a narrow thread behind for others.
func TestEndedGoroutineTakesItsPinAlong(t *testing.T) {
	var task string
	onOwnThread(func() {
		task = "/proc/self/task/" + strconv.Itoa(unix.Gettid())
		if _, err := PinThread(CPUs().Allowed[0]); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the thread ends", func() bool {
		_, err := os.Stat(task)
		return os.IsNotExist(err)
	})
}

func TestHasCapabilityAgreesWithProc(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	text, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "CapEff:")
	if !ok {
		t.Fatal("no CapEff line")
	}
	mask, err := strconv.ParseUint(strings.Fields(rest)[0], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	for c := range Capability(64) {
		if got, want := HasCapability(c), AnswerOf(mask&(1<<c) != 0); got != want {
			t.Errorf("%v: %v, want %v", c, got, want)
		}
	}
	if got := HasCapability(64); got != No {
		t.Errorf("capability 64: %v", got)
	}
	if CapBPF.String() != "CAP_BPF" || Capability(7).String() != "CAP_7" {
		t.Errorf("names: %v, %v", CapBPF, Capability(7))
	}
}

func TestNamespaceMarks(t *testing.T) {
	r := fakeRoot(t, map[string]string{"proc/thread-self/ns/x": ""})
	if u, n := r.initialUserNamespace(), r.initialNetNamespace(); u != Unknown || n != Unknown {
		t.Errorf("an empty /proc: user %v, net %v", u, n)
	}
	for target, want := range map[string]Answer{"user:[4026531837]": Yes, "user:[4026532001]": No} {
		link := r.path("proc/thread-self/ns/user")
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		if got := r.initialUserNamespace(); got != want {
			t.Errorf("%s: %v", target, got)
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
	if got := fakeRoot(t, map[string]string{"proc/sys/net/core/somaxconn": "1"}).initialNetNamespace(); got != No {
		t.Errorf("a namespace that lacks the host's settings: %v", got)
	}
	if got := fakeRoot(t, map[string]string{"proc/sys/net/core/netdev_max_backlog": "1"}).initialNetNamespace(); got != Yes {
		t.Errorf("the host's namespace: %v", got)
	}
}

func TestLimitsAgreeWithProc(t *testing.T) {
	text, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line string
		ask  func() (Limit, error)
	}{{"Max open files", OpenFileLimit}, {"Max locked memory", LockedMemoryLimit}} {
		_, rest, ok := strings.Cut(string(text), c.line)
		if !ok {
			t.Fatalf("no line %q", c.line)
		}
		fields := strings.Fields(rest)
		got, err := c.ask()
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range []uint64{got.Soft, got.Hard} {
			want := Unlimited
			if fields[i] != "unlimited" {
				if want, err = strconv.ParseUint(fields[i], 10, 64); err != nil {
					t.Fatal(err)
				}
			}
			if v != want {
				t.Errorf("%s: %+v, /proc says %v", c.line, got, fields[:2])
			}
		}
	}
}

func TestProcessUsageGrows(t *testing.T) {
	before, err := ProcessUsage()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "CPU time is counted", func() bool {
		for i := range 1_000_000 {
			sink += i
		}
		now, err := ProcessUsage()
		if err != nil {
			t.Fatal(err)
		}
		used := now.Sub(before)
		return used.User+used.System > 0
	})
}

var sink int
