//go:build amd64 || arm64

package bpf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"felix/internal/testkit"
	"felix/platform"
)

// ownMounts gives a child process mounts of its own, which end with it.
var ownMounts = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}

// bpfMount mounts a BPF file system. Only for tests in a child of ownMounts.
func bpfMount(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
		t.Fatalf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

func pinNames(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func allMaps() []string {
	var names []string
	for _, p := range probes {
		names = append(names, p.maps...)
	}
	slices.Sort(names)
	return names
}

func TestPinsComeAndGo(t *testing.T) {
	if !inChild(t, ownMounts) {
		return
	}
	dir := filepath.Join(bpfMount(t), "felix")
	p := open(t, Options{Mode: ModeFull, PinDir: dir, PinMode: 0o644})
	st := p.Status().Pins
	if st.Reason != nil || st.Dir != dir || len(st.Stale) != 0 || len(st.Foreign) != 0 {
		t.Errorf("pins %+v, want nothing odd", st)
	}
	if got := pinNames(t, dir); !slices.Equal(got, allMaps()) {
		t.Errorf("pinned %v, want %v", got, allMaps())
	}
	for _, path := range st.Paths {
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v, %v, want mode 0644", path, fi.Mode(), err)
		}
		if len(filepath.Base(path)) > 15 {
			t.Errorf("%s has a name that the kernel cuts off", path)
		}
	}
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o755 {
		t.Errorf("%s: %v, %v, want mode 0755", dir, fi.Mode(), err)
	}
	// A smaller mode takes its pins along, and gives them back.
	if err := p.SetMode(ModeSched); err != nil {
		t.Fatal(err)
	}
	if got, want := pinNames(t, dir), []string{"felix_cpu", "felix_threads", "felix_wakeups"}; !slices.Equal(got, want) {
		t.Errorf("pinned %v in mode sched, want %v", got, want)
	}
	if err := p.SetMode(ModeFull); err != nil {
		t.Fatal(err)
	}
	if got := pinNames(t, dir); !slices.Equal(got, allMaps()) {
		t.Errorf("pinned %v in mode full again, want %v", got, allMaps())
	}
	// The directory belongs to one process at a time; the other one measures
	// without pins.
	q := open(t, Options{Mode: ModeFull, PinDir: dir})
	if r := q.Status().Pins.Reason; r == nil || r.Kind != ReasonPinInUse {
		t.Errorf("second user of the directory: %v, want %v", r, ReasonPinInUse)
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	if got := pinNames(t, dir); !slices.Equal(got, allMaps()) {
		t.Errorf("pinned %v after the second user, want %v", got, allMaps())
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
}

// Left-over pins of ours, of another layout as well, do not stop us; whatever
// is not ours stays.
func TestStalePinsAreReplacedForeignOnesStay(t *testing.T) {
	if !inChild(t, ownMounts) {
		return
	}
	dir := filepath.Join(bpfMount(t), "felix")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	pin := func(mapName, file string, value uint32) {
		m, err := ebpf.NewMap(&ebpf.MapSpec{Name: mapName, Type: ebpf.Hash, KeySize: 8, ValueSize: value, MaxEntries: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if err := m.Pin(filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	pin("felix_drops", "felix_drops", 4) // ours, of an older build
	pin("somebodys", "felix_gro", 8)     // a foreign map under our name
	pin("somebodys", "somebodys", 8)     // a foreign map
	pin("felix_drops", "elsewhere", 8)   // our map where we do not put it
	pinProgram(t, dir+"/felix_sends")    // no map at all
	foreign := []string{dir + "/felix_gro", dir + "/felix_sends"}

	p := open(t, Options{Mode: ModeFull, PinDir: dir})
	st := p.Status().Pins
	if want := []string{dir + "/felix_drops"}; !slices.Equal(st.Stale, want) {
		t.Errorf("stale %v, want %v", st.Stale, want)
	}
	if !slices.Equal(st.Foreign, foreign) || st.Reason == nil || st.Reason.Kind != ReasonPinForeign {
		t.Errorf("foreign %v, %v, want %v", st.Foreign, st.Reason, foreign)
	}
	m, err := ebpf.LoadPinnedMap(dir+"/felix_drops", nil)
	if err != nil {
		t.Fatal(err)
	}
	if m.ValueSize() != p.host.attached[MetricDrops].collection.Maps["felix_drops"].ValueSize() {
		t.Errorf("felix_drops still has values of %d bytes", m.ValueSize())
	}
	m.Close()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	want := []string{"elsewhere", "felix_gro", "felix_sends", "somebodys"}
	if got := pinNames(t, dir); !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
}

func pinProgram(t *testing.T, path string) {
	t.Helper()
	spec, err := loadObjects()
	if err != nil {
		t.Fatal(err)
	}
	prog, err := ebpf.NewProgram(spec.Programs[objectsProgFelixSelf])
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	if err := prog.Pin(path); err != nil {
		t.Fatal(err)
	}
}

// After SIGKILL the programs are gone by themselves; the next start finds the
// pins and replaces them.
func TestKilledProcessLeavesNothingThatHurts(t *testing.T) {
	if !inChild(t, ownMounts) {
		return
	}
	dir := filepath.Join(bpfMount(t), "felix")
	cmd, h := hold(t, dir, nil)
	if len(h.Pins.Paths) != len(allMaps()) {
		t.Fatalf("the helper pinned %v", h.Pins)
	}
	if living(h.programs()) != 9 {
		t.Fatalf("the helper has the programs %v, want 9", h.programs())
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	eventually(t, "the programs of a killed process end", func() bool { return living(h.programs()) == 0 })
	if got := pinNames(t, dir); !slices.Equal(got, allMaps()) {
		t.Fatalf("pins after the kill: %v", got)
	}

	p := open(t, Options{Mode: ModeFull, PinDir: dir})
	st := p.Status().Pins
	if len(st.Stale) != len(allMaps()) || len(st.Paths) != len(allMaps()) || st.Reason != nil {
		t.Errorf("pins %+v, want all replaced", st)
	}
}

func TestPinsWithoutBPFFS(t *testing.T) {
	for _, dir := range []string{filepath.Join(t.TempDir(), "felix"), "/does/not/exist/felix", "/proc/felix"} {
		p := open(t, Options{Mode: ModeSched, PinDir: dir})
		st := p.Status().Pins
		if st.Reason == nil || st.Reason.Kind != ReasonNoBPFFS || !strings.Contains(st.Reason.Remedy, "mount -t bpf bpf") || len(st.Paths) != 0 {
			t.Errorf("%s: %+v, want %v", dir, st, ReasonNoBPFFS)
		}
		if snapshot(t, p).Wakeups == nil {
			t.Errorf("%s: nothing is measured", dir)
		}
	}
}

// A BPF file system that the daemon's user may not write to.
func TestPinsWithoutPermission(t *testing.T) {
	if !inChild(t, ownMounts) {
		return
	}
	dir := bpfMount(t)
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	_, h := hold(t, filepath.Join(dir, "felix"), withCapabilities(platform.CapBPF, platform.CapPerfmon))
	pins := h.Pins
	if r := pins.Reason; r == nil || r.Kind != "rights" || !strings.Contains(r.Text, "permission denied") || r.Remedy == "" || len(pins.Paths) != 0 {
		t.Errorf("pins %+v, want a word on permission", pins)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{
		{Mode: 3},
		{PinDir: "felix"},
		{PinMode: 0o755},
	} {
		if p, err := Open(o); err == nil {
			p.Close()
			t.Errorf("%+v is accepted", o)
		}
	}
}

// bpftool runs the tool and decodes what it prints.
func bpftool(t *testing.T, into any, args ...string) {
	t.Helper()
	path, err := exec.LookPath("bpftool")
	if err != nil {
		testkit.Missing(t, "bpftool (Debian package bpftool)")
	}
	cmd := exec.Command(path, append([]string{"-j"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("bpftool %v: %v", args, err)
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("bpftool %v: %v\n%s", args, err, out)
	}
}

// dumped is an entry of a map as bpftool prints it where it has the types.
type dumped[K, V any] struct {
	Formatted struct {
		Key   K `json:"key"`
		Value V `json:"value"`
	} `json:"formatted"`
}

// dump reads a pinned map with bpftool.
func dump[K, V any](t *testing.T, path string) map[string]V {
	t.Helper()
	var list []dumped[K, V]
	bpftool(t, &list, "map", "dump", "pinned", path)
	out := map[string]V{}
	for _, e := range list {
		out[fmt.Sprint(e.Formatted.Key)] = e.Formatted.Value
	}
	return out
}

func TestBpftoolPrintsWhatWeCount(t *testing.T) {
	if !inChild(t, ownMounts) {
		return
	}
	dir := filepath.Join(bpfMount(t), "felix")
	p := open(t, Options{Mode: ModeFull, PinDir: dir})
	from, to := newSocket(t, unix.AF_INET), newSocket(t, unix.AF_INET)
	b, control := make([]byte, 163360), segmented(16336)
	for range 1000 {
		if _, err := unix.SendmsgN(from.fd, b, control, to.addr, 0); !errors.Is(err, unix.EMSGSIZE) {
			t.Fatalf("send: %v, want EMSGSIZE", err)
		}
	}
	small, id := watched(t, p)
	small.set(t, unix.SOL_SOCKET, unix.SO_RCVBUF, 4096)
	from.send(t, small, 100, 1200)
	dropped := small.drops(t)
	arrived := small.drain(t)

	type refusedKey struct{ Error, Call string }
	refused := dump[refusedKey, struct {
		Count       int
		LastLength  int `json:"last_length"`
		LastSegment int `json:"last_segment"`
	}](t, dir+"/felix_refused")
	e := refused["{EMSGSIZE CALL_SENDMSG}"]
	if len(refused) != 1 || e.Count != 1000 || e.LastLength != 163360 || e.LastSegment != 16336 {
		t.Errorf("felix_refused: %+v, want 1000 EMSGSIZE of 163360", refused)
	}
	drops := dump[uint64, struct {
		LocalPort  uint16 `json:"local_port"`
		BufferFull uint64 `json:"buffer_full"`
	}](t, dir+"/felix_drops")
	if d := drops[fmt.Sprint(id.Cookie)]; d.BufferFull != dropped || d.LocalPort != small.port || dropped == 0 {
		t.Errorf("felix_drops: %+v, want %d at port %d", drops, dropped, small.port)
	}
	receives := dump[uint64, struct{ Receives int }](t, dir+"/felix_receives")
	if r := receives[fmt.Sprint(id.Cookie)]; r.Receives != arrived {
		t.Errorf("felix_receives: %+v, want %d", receives, arrived)
	}
	sends := dump[int, struct{ Sent, Refused int }](t, dir+"/felix_sends")
	if s := sends["0"]; s.Sent != 100 || s.Refused != 1000 {
		t.Errorf("felix_sends: %+v", sends)
	}
	type wakeupKey struct{ Cause, Waker string }
	wakeups := dump[wakeupKey, struct{ Wakeups int }](t, dir+"/felix_wakeups")
	for k := range wakeups {
		if !strings.HasPrefix(k, "{SLEEP_") || !strings.Contains(k, " WAKER_") {
			t.Errorf("felix_wakeups: key %s without names", k)
		}
	}
	type times struct {
		Count uint64
		SumNS uint64 `json:"sum_ns"`
		Slots []uint64
	}
	cpu := dump[int, struct {
		RunQueue times `json:"run_queue"`
	}](t, dir+"/felix_cpu")
	if c := cpu["0"].RunQueue; c.Count == 0 || c.SumNS == 0 || len(c.Slots) != 40 {
		t.Errorf("felix_cpu: %+v", cpu)
	}
	dump[int, struct{ Runs int }](t, dir+"/felix_threads")
	dump[int, struct{ Merged int }](t, dir+"/felix_gro")
	dump[struct{ Error string }, struct{ Count int }](t, dir+"/felix_peers")
}
