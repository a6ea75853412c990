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

func TestNamespaceLinks(t *testing.T) {
	link := func(r hostRoot, path, target string) {
		t.Helper()
		full := r.path(path)
		if err := os.MkdirAll(full[:strings.LastIndexByte(full, '/')], 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, full); err != nil {
			t.Fatal(err)
		}
	}
	r := fakeRoot(t, nil)
	if got := r.initialUserNamespace(); got != Unknown {
		t.Errorf("no /proc: %v", got)
	}
	link(r, "proc/thread-self/ns/user", "user:[4026531837]")
	link(r, "proc/thread-self/ns/net", "net:[4026531840]")
	if got := r.initialUserNamespace(); got != Yes {
		t.Errorf("first user namespace: %v", got)
	}
	if got := r.initialNetNamespace(); got != Unknown {
		t.Errorf("process 1 is hidden: %v", got)
	}
	link(r, "proc/1/ns/net", "net:[4026531840]")
	if got := r.initialNetNamespace(); got != Yes {
		t.Errorf("same network namespace: %v", got)
	}
	r = fakeRoot(t, nil)
	link(r, "proc/thread-self/ns/user", "user:[4026532001]")
	link(r, "proc/thread-self/ns/net", "net:[4026532002]")
	link(r, "proc/1/ns/net", "net:[4026531840]")
	if u, n := r.initialUserNamespace(), r.initialNetNamespace(); u != No || n != No {
		t.Errorf("other namespaces: user %v, net %v", u, n)
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
