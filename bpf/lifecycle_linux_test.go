//go:build amd64 || arm64

package bpf

import (
	"errors"
	"net"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"felix/internal/testkit"
)

// living counts the programs of the list that the kernel still has.
func living(ids []ebpf.ProgramID) (n int) {
	for _, id := range ids {
		if p, err := ebpf.NewProgramFromID(id); err == nil {
			p.Close()
			n++
		}
	}
	return n
}

// loaded lists the kernel's ids of all programs and maps of the probes.
func loaded(t *testing.T, p *Probes) (programs []ebpf.ProgramID, maps []ebpf.MapID) {
	t.Helper()
	for _, a := range p.host.attached {
		for _, e := range a.programs {
			programs = append(programs, ebpf.ProgramID(e.ID))
		}
		for name, m := range a.collection.Maps {
			info, err := m.Info()
			if err != nil {
				t.Fatal(err)
			}
			id, ok := info.ID()
			if !ok {
				t.Fatalf("map %s has no id", name)
			}
			maps = append(maps, id)
		}
	}
	return programs, maps
}

func TestCloseLeavesNothing(t *testing.T) {
	testkit.RequireRoot(t)
	// The collector closes what we forget: it shall not help here.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	fds := testkit.OpenDescriptors(t, 0)

	p := open(t, Options{Mode: ModeFull, RunStats: true})
	s := newSocket(t, unix.AF_INET)
	if _, err := p.Watch(uintptr(s.fd)); err != nil {
		t.Fatal(err)
	}
	snapshot(t, p)
	programs, maps := loaded(t, p)
	if living(programs) != 9 || len(maps) < len(allMaps()) {
		t.Fatalf("%d programs and %d maps are loaded, want 9, and %d and more", living(programs), len(maps), len(allMaps()))
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	s.close()
	if now := testkit.OpenDescriptors(t, 0); now != fds {
		t.Errorf("%d descriptors before, %d after", fds, now)
	}
	eventually(t, "programs and maps are gone", func() bool {
		for _, id := range maps {
			if m, err := ebpf.NewMapFromID(id); err == nil {
				m.Close()
				return false
			}
		}
		return living(programs) == 0
	})
}

func TestClosed(t *testing.T) {
	p := open(t, Options{Mode: ModeSched})
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	s := newSocket(t, unix.AF_INET)
	_, snap := p.Snapshot()
	_, watch := p.Watch(uintptr(s.fd))
	for name, err := range map[string]error{
		"snapshot": snap, "watch": watch, "set mode": p.SetMode(ModeFull), "run stats": p.SetRunStats(true),
	} {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s after close: %v", name, err)
		}
	}
	p.Unwatch(Socket{Cookie: 1})
	for _, m := range p.Status().Metrics {
		if m.On {
			t.Errorf("%s is on", m.Metric)
		}
	}
}

func TestModeChangesWhileRunning(t *testing.T) {
	p := open(t, Options{})
	on := func() (out []Metric) {
		for _, m := range p.Status().Metrics {
			if m.On {
				out = append(out, m.Metric)
			} else if m.Reason == nil || m.Reason.Kind != ReasonMode || m.Reason.Remedy == "" {
				t.Errorf("%s is off because of %v", m.Metric, m.Reason)
			}
		}
		return out
	}
	if got := on(); got != nil {
		t.Errorf("mode off measures %v", got)
	}
	small, id := watched(t, p) // before anything is attached
	small.set(t, unix.SOL_SOCKET, unix.SO_RCVBUF, 4096)
	from := newSocket(t, unix.AF_INET)

	sched := []Metric{MetricWakeups, MetricCPUTime}
	for _, step := range []struct {
		mode Mode
		on   []Metric
	}{{ModeSched, sched}, {ModeFull, Metrics()}, {ModeSched, sched}, {ModeOff, nil}, {ModeFull, Metrics()}} {
		before := snapshot(t, p)
		if err := p.SetMode(step.mode); err != nil {
			t.Fatal(err)
		}
		mustAttach(t, p)
		if got := on(); !slices.Equal(got, step.on) || p.Mode() != step.mode {
			t.Errorf("mode %s measures %v, want %v", step.mode, got, step.on)
		}
		after := snapshot(t, p)
		if before.Wakeups != nil && after.Wakeups != nil && (after.Wakeups.Total < before.Wakeups.Total || !after.Attached[MetricWakeups].Equal(before.Attached[MetricWakeups])) {
			t.Errorf("mode %s started the wakeups anew", step.mode)
		}
		if step.mode == ModeFull {
			was := small.drops(t)
			from.send(t, small, 20, 1200)
			if got, want := after.Drops.Socket(id.Cookie).Total(), uint64(0); got != want {
				t.Errorf("drops start at %d", got)
			}
			if got, want := snapshot(t, p).Drops.Socket(id.Cookie).Total(), small.drops(t)-was; got != want || want == 0 {
				t.Errorf("%d drops of the socket watched before, want %d", got, want)
			}
		}
	}
	if err := p.SetMode(9); err == nil {
		t.Error("mode 9 is accepted")
	}
}

func TestRunStats(t *testing.T) {
	p := open(t, Options{Mode: ModeFull})
	idle := snapshot(t, p)
	if err := p.SetRunStats(true); err != nil {
		t.Fatal(err)
	}
	if err := p.SetRunStats(true); err != nil {
		t.Errorf("again: %v", err)
	}
	from, to := newSocket(t, unix.AF_INET), newSocket(t, unix.AF_INET)
	from.send(t, to, 100, 10)
	s := snapshot(t, p)
	if !p.Status().RunStats || !s.Overhead.Measured || s.Overhead.Time() <= 0 {
		t.Errorf("overhead %+v, want a time", s.Overhead)
	}
	var runs uint64
	for _, c := range s.Sub(idle).Overhead.Programs {
		if c.Misses != 0 {
			t.Errorf("%s missed %d events", c.Name, c.Misses)
		}
		if c.Name == "felix_send" || c.Name == "felix_sys_send" {
			runs = c.Runs
		}
	}
	if runs < 100 { // it also runs for the sends of other processes
		t.Errorf("the program for sends ran %d times for 100 sends", runs)
	}
	if err := p.SetRunStats(false); err != nil || p.Status().RunStats {
		t.Errorf("cannot be switched off: %v", err)
	}
}

// Snapshots, mode changes and sockets from many goroutines.
func TestConcurrentUse(t *testing.T) {
	p := open(t, Options{Mode: ModeSched})
	end := time.Now().Add(300 * time.Millisecond)
	done := make(chan error, 4)
	work := func(f func() error) {
		for time.Now().Before(end) {
			if err := f(); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}
	s := newSocket(t, unix.AF_INET)
	go work(func() error { _, err := p.Snapshot(); return err })
	go work(func() error { p.Status(); return nil })
	go work(func() error {
		id, err := p.Watch(uintptr(s.fd))
		p.Unwatch(id)
		return err
	})
	go work(func() error { return errors.Join(p.SetMode(ModeFull), p.SetMode(ModeSched)) })
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
