//go:build amd64 || arm64

package bpf

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"felix/internal/testkit"
	"felix/platform"
)

const nobody = 65534

// mustBeOff opens probes in a process that cannot attach any, checks that each
// metric says why, and returns the common reason.
func mustBeOff(t *testing.T, kind ReasonKind) *Reason {
	t.Helper()
	p, err := Open(Options{Mode: ModeFull, RunStats: true})
	if err != nil {
		t.Fatalf("open fails: %v", err)
	}
	defer p.Close()
	var last *Reason
	for _, m := range p.Status().Metrics {
		if m.On {
			t.Fatalf("%s is on", m.Metric)
		}
		last = m.Reason
		if last == nil || last.Kind != kind || last.Text == "" || last.Remedy == "" {
			t.Fatalf("%s is off because of %v, want %v", m.Metric, last, kind)
		}
		if strings.Contains(strings.ToUpper(last.Error()), "MEMLOCK") || strings.Contains(last.Error(), "\n") {
			t.Errorf("%s: %q blames the memlock limit or is no one line", m.Metric, last)
		}
	}
	s, err := p.Snapshot()
	if err != nil || len(s.Attached) != 0 || s.Wakeups != nil || s.Sends != nil {
		t.Errorf("snapshot %+v, %v, want an empty one", s, err)
	}
	return last
}

func TestWithoutTracefs(t *testing.T) {
	if !inChild(t, ownMounts) {
		return
	}
	for _, dir := range []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing", "/sys/kernel/debug"} {
		for unix.Unmount(dir, unix.MNT_DETACH) == nil {
		}
	}
	if platform.TraceFS().Supported() {
		t.Fatal("tracefs is still there")
	}
	countThousand(t)
}

// countThousand opens all probes and has 1000 sends refused.
func countThousand(t *testing.T) {
	t.Helper()
	p, err := Open(Options{Mode: ModeFull})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	mustAttach(t, p)
	from, to := newSocket(t, unix.AF_INET), newSocket(t, unix.AF_INET)
	b := make([]byte, tooLong)
	for range 1000 {
		if err := unix.Sendto(from.fd, b, 0, to.addr); !errors.Is(err, unix.EMSGSIZE) {
			t.Fatalf("send: %v, want EMSGSIZE", err)
		}
	}
	time.Sleep(5 * time.Millisecond) // a thread sleeps, and is woken
	s := snapshot(t, p)
	if n := s.Sends.Count("EMSGSIZE"); n != 1000 {
		t.Errorf("%d refusals counted, want 1000", n)
	}
	if s.Wakeups.Total == 0 || s.CPUTime.OnCPU.Count == 0 {
		t.Errorf("no wakeups or no runs: %+v", s)
	}
}

func TestWithoutBTF(t *testing.T) {
	if !inChild(t, ownMounts) {
		return
	}
	if err := unix.Mount("tmpfs", "/sys/kernel/btf", "tmpfs", 0, ""); err != nil {
		t.Fatalf("hide BTF: %v", err)
	}
	if r := mustBeOff(t, ReasonNoBTF); !strings.Contains(r.Error(), "/sys/kernel/btf/vmlinux") || !strings.Contains(r.Remedy, "CONFIG_DEBUG_INFO_BTF") {
		t.Errorf("reason %q names neither the file nor the option", r)
	}
}

func TestInPIDNamespace(t *testing.T) {
	if !inChild(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}) {
		return
	}
	if os.Getpid() != 1 {
		t.Fatalf("process id %d, want 1", os.Getpid())
	}
	countThousand(t)
}

func TestMemlockZeroAsRoot(t *testing.T) {
	if !inChild(t, &syscall.SysProcAttr{}) {
		return
	}
	if !platform.Kernel().AtLeast(5, 11) {
		testkit.Missing(t, "Linux 5.11 (BPF memory is charged to the cgroup)")
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{}); err != nil {
		t.Fatal(err)
	}
	countThousand(t)
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &now); err != nil || now.Cur != 0 {
		t.Errorf("the limit is %+v, %v: it was touched", now, err)
	}
}

func TestWithoutCapabilities(t *testing.T) {
	if !inChild(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}) {
		return
	}
	r := mustBeOff(t, ReasonRights)
	if !strings.Contains(r.Text, "lacks CAP_BPF and CAP_PERFMON") || !strings.Contains(r.Remedy, "AmbientCapabilities=") {
		t.Errorf("reason %q does not name what is missing", r)
	}
}

func TestWithOneCapabilityOfTwo(t *testing.T) {
	for _, c := range []struct {
		held    platform.Capability
		missing string
	}{
		{platform.CapBPF, "lacks CAP_PERFMON"},
		{platform.CapPerfmon, "lacks CAP_BPF"},
	} {
		t.Run(c.held.String(), func(t *testing.T) {
			if !inChild(t, withCapabilities(c.held)) {
				return
			}
			if r := mustBeOff(t, ReasonRights); !strings.Contains(r.Text, c.missing) {
				t.Errorf("reason %q, want %q", r, c.missing)
			}
		})
	}
}

// withCapabilities is nobody with the given rights only.
func withCapabilities(caps ...platform.Capability) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	for _, c := range caps {
		attr.AmbientCaps = append(attr.AmbientCaps, uintptr(c))
	}
	return attr
}

// The least rights that the documentation names are enough, but for run
// statistics.
func TestLeastRights(t *testing.T) {
	if !inChild(t, withCapabilities(platform.CapBPF, platform.CapPerfmon)) {
		return
	}
	countThousand(t)
	p, err := Open(Options{Mode: ModeSched, RunStats: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	st := p.Status()
	if r := st.RunStatsReason; st.RunStats || r == nil || r.Kind != ReasonRights || !strings.Contains(r.Text, "CAP_SYS_ADMIN") {
		t.Errorf("run statistics: %v, %v, want a word on CAP_SYS_ADMIN", st.RunStats, r)
	}
}

func TestInUserNamespace(t *testing.T) {
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
	if !inChild(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids}) {
		return
	}
	if platform.HasCapability(platform.CapBPF) != platform.Yes {
		t.Fatal("the process has no rights in its namespace")
	}
	if r := mustBeOff(t, ReasonUserNamespace); !strings.Contains(r.Text, "user namespace") {
		t.Errorf("reason %q does not name the user namespace", r)
	}
}

func TestReasonsForEPERM(t *testing.T) {
	const yes, no = platform.Yes, platform.No
	for _, c := range []struct {
		name   string
		rights rights
		kind   ReasonKind
		text   string
	}{
		{"nothing held", rights{no, no, no, yes, true, false}, ReasonRights, "lacks CAP_BPF and CAP_PERFMON"},
		{"nothing held before 5.8", rights{no, no, no, yes, false, true}, ReasonRights, "lacks CAP_SYS_ADMIN"},
		{"user namespace", rights{yes, yes, yes, no, true, false}, ReasonUserNamespace, "user namespace"},
		{"memlock before 5.11", rights{no, no, yes, yes, true, true}, ReasonMemory, "memlock"},
		{"policy", rights{yes, yes, no, yes, true, false}, ReasonPolicy, "lockdown"},
		{"namespace unknown", rights{yes, yes, no, platform.Unknown, true, false}, ReasonPolicy, "lockdown"},
	} {
		if r := c.rights.explain(unix.EPERM); r.Kind != c.kind || !strings.Contains(r.Text, c.text) || !errors.Is(r, unix.EPERM) {
			t.Errorf("%s: %v %q, want %v with %q", c.name, r.Kind, r, c.kind, c.text)
		}
	}
}
