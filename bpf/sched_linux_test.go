//go:build amd64 || arm64

package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"felix/internal/testkit"
	"felix/platform"
)

// procTimes is what /proc counts for all threads of this process.
type procTimes struct {
	onCPU, runQueue, runs, sleeps, preemptions uint64
}

func (a procTimes) sub(b procTimes) procTimes {
	return procTimes{
		since(a.onCPU, b.onCPU), since(a.runQueue, b.runQueue), since(a.runs, b.runs),
		since(a.sleeps, b.sleeps), since(a.preemptions, b.preemptions),
	}
}

func readProcTimes(t *testing.T) procTimes {
	t.Helper()
	var sum procTimes
	tasks, err := filepath.Glob("/proc/self/task/*")
	if err != nil || len(tasks) == 0 {
		t.Fatalf("no threads in /proc: %v", err)
	}
	for _, dir := range tasks {
		var onCPU, runQueue, runs uint64
		text, err := os.ReadFile(filepath.Join(dir, "schedstat"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the thread has ended
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(string(text), &onCPU, &runQueue, &runs); err != nil {
			t.Fatalf("%s: %q: %v", dir, text, err)
		}
		sum.onCPU += onCPU
		sum.runQueue += runQueue
		sum.runs += runs
		var v, n uint64
		readSwitches(t, dir, &v, &n)
		sum.sleeps += v
		sum.preemptions += n
	}
	return sum
}

func readSwitches(t *testing.T, dir string, voluntary, forced *uint64) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "status"))
	if err != nil {
		return
	}
	defer f.Close()
	for {
		var name string
		if _, err := fmt.Fscan(f, &name); err != nil {
			return
		}
		switch name {
		case "voluntary_ctxt_switches:":
			_, _ = fmt.Fscan(f, voluntary)
		case "nonvoluntary_ctxt_switches:":
			_, _ = fmt.Fscan(f, forced)
		}
	}
}

// reading is a snapshot with what /proc said right before and after.
type reading struct {
	before procTimes
	probe  Snapshot
	after  procTimes
}

func read(t *testing.T, p *Probes) reading {
	t.Helper()
	return reading{readProcTimes(t), snapshot(t, p), readProcTimes(t)}
}

// within fails unless what the probe counted between two readings is at most a
// fifth, and slack, outside of what /proc allows: reading /proc takes a while,
// so it gives a least and a most.
func within(t *testing.T, what string, probe, least, most, slack uint64) {
	t.Helper()
	if low := least - least/5; probe+slack < low || probe > most+most/5+slack {
		t.Errorf("%s: the probe says %d, /proc %d to %d", what, probe, least, most)
	}
}

// onThreads runs f on n threads that live on for the rest of the test, so that
// /proc keeps their figures.
func onThreads(t *testing.T, n int, f func()) {
	t.Helper()
	end := make(chan struct{})
	var worked, ended sync.WaitGroup
	worked.Add(n)
	for range n {
		ended.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			f()
			worked.Done()
			<-end
		})
	}
	worked.Wait()
	t.Cleanup(func() {
		close(end)
		ended.Wait()
	})
}

// More threads that burn than CPUs must wait, and the wait is what schedstat
// counts.
func TestCPUTimeAgreesWithSchedstat(t *testing.T) {
	threads := 2 * runtime.NumCPU()
	old := runtime.GOMAXPROCS(threads)
	defer runtime.GOMAXPROCS(old)
	p := open(t, Options{Mode: ModeSched})

	first := read(t, p)
	burn := func() {
		for until := time.Now().Add(400 * time.Millisecond); time.Now().Before(until); {
		}
	}
	onThreads(t, threads, burn)
	last := read(t, p)
	d := last.probe.Sub(first.probe).CPUTime
	least, most := last.before.sub(first.after), last.after.sub(first.before)

	if least.runQueue < uint64(50*time.Millisecond) {
		t.Fatalf("the threads waited only %v: the load is too light to compare", time.Duration(least.runQueue))
	}
	// A thread that waits or runs at the end is not in a sum yet.
	const slack = uint64(20 * time.Millisecond)
	within(t, "run-queue ns", d.RunQueue.Sum, least.runQueue, most.runQueue, slack)
	within(t, "on-CPU ns", d.OnCPU.Sum, least.onCPU, most.onCPU, slack*uint64(threads))
	within(t, "runs", d.OnCPU.Count, least.runs, most.runs, 20)
	within(t, "preemptions", d.Preemptions, least.preemptions, most.preemptions, 20)
	if d.Untracked != 0 {
		t.Errorf("%d events were not tracked", d.Untracked)
	}
	var sum time.Duration
	for _, th := range d.Threads {
		sum += th.RunQueue
	}
	within(t, "run-queue ns of the threads", uint64(sum), least.runQueue, most.runQueue, slack)
}

// blocking makes a pipe whose ends block the thread, and closes it with the
// test.
func blocking(t testing.TB) (r, w int) {
	t.Helper()
	fds := make([]int, 2)
	if err := unix.Pipe2(fds, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		unix.Close(fds[0])
		unix.Close(fds[1])
	})
	return fds[0], fds[1]
}

func needRegisters(t *testing.T) {
	t.Helper()
	if !platform.Kernel().AtLeast(5, 15) {
		testkit.Missing(t, "Linux 5.15 (bpf_task_pt_regs)")
	}
}

// Two threads throw a byte to and fro through blocking pipes: each throw wakes
// the other out of read(2), and each sleep ends with one wakeup.
func TestWakeupsAgreeWithSwitches(t *testing.T) {
	needRegisters(t)
	const throws = 3000
	r1, w1 := blocking(t)
	r2, w2 := blocking(t)
	p := open(t, Options{Mode: ModeSched})
	first := read(t, p)

	var once sync.Mutex
	ends := [][2]int{{r1, w2}, {r2, w1}}
	if _, err := unix.Write(w1, []byte{0}); err != nil {
		t.Fatal(err)
	}
	onThreads(t, 2, func() {
		once.Lock()
		r, w := ends[0][0], ends[0][1]
		ends = ends[1:]
		once.Unlock()
		b := make([]byte, 1)
		for range throws {
			if n, err := unix.Read(r, b); n != 1 || err != nil {
				t.Errorf("read: %d, %v", n, err)
				return
			}
			if n, err := unix.Write(w, b); n != 1 || err != nil {
				t.Errorf("write: %d, %v", n, err)
				return
			}
		}
	})
	last := read(t, p)
	s := last.probe.Sub(first.probe)
	least, most := last.before.sub(first.after), last.after.sub(first.before)

	within(t, "wakeups", s.Wakeups.Total, least.sleeps, most.sleeps, 100)
	within(t, "sleeps", s.CPUTime.Asleep.Count, least.sleeps, most.sleeps, 100)
	// A reader that found the byte there did not sleep: not each throw wakes.
	if n := s.Wakeups.Count(CauseFile); n > 2*throws || n < throws/2 {
		t.Errorf("%d wakeups out of read, want up to %d", n, 2*throws)
	}
	for _, e := range s.Wakeups.By {
		if e.Cause == CauseFile && e.Syscall != "read" {
			t.Errorf("a wakeup out of %s", e.Syscall)
		}
		if e.Cause == CauseFile && e.Waker == WakerOther && e.Count > throws/10 {
			t.Errorf("%d wakeups are laid on others", e.Count)
		}
	}
}

// What another process does to wake us counts as other.
func TestWakeupsByOthers(t *testing.T) {
	needRegisters(t)
	p := open(t, Options{Mode: ModeSched})
	r, w := blocking(t)
	first := snapshot(t, p)
	cmd := helper("byte")
	cmd.Stdout = os.NewFile(uintptr(must(unix.Dup(w))), "pipe")
	defer cmd.Stdout.(*os.File).Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	if n, err := unix.Read(r, b); n != 1 || err != nil {
		t.Fatalf("read: %d, %v", n, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, e := range snapshot(t, p).Sub(first).Wakeups.By {
		if e.Syscall == "read" && e.Waker == WakerOther && e.Count >= 1 {
			return
		}
	}
	t.Error("the wakeup by another process is missing")
}

func must(fd int, err error) int {
	if err != nil {
		panic(err)
	}
	return fd
}

// writeByte is the helper process that wakes its parent.
func writeByte() error {
	time.Sleep(50 * time.Millisecond) // so that the parent sleeps by then
	_, err := os.Stdout.Write([]byte{1})
	return err
}

// A kernel that does not tell the system call still gives the number of
// wakeups.
func TestWakeupsWithoutRegisters(t *testing.T) {
	p := open(t, Options{})
	p.host.first = 1
	if err := p.SetMode(ModeSched); err != nil {
		t.Fatal(err)
	}
	if st := p.Status().Metric(MetricWakeups); !st.On || st.Limits == "" {
		t.Fatalf("status %+v, want limits", st)
	}
	time.Sleep(20 * time.Millisecond)
	w := snapshot(t, p).Wakeups
	if w.Total == 0 || w.Count(CauseUnknown) != w.Total {
		t.Errorf("counted %+v, want unknown causes only", w)
	}
}

// Entries of threads that end go away.
func TestEndedThreadsAreForgotten(t *testing.T) {
	p := open(t, Options{Mode: ModeSched})
	if unix.Getpid() != int(p.host.tgid) {
		t.Fatalf("process %d is %d to the kernel", unix.Getpid(), p.host.tgid)
	}
	listed := func() (living, ended int) {
		for _, th := range snapshot(t, p).CPUTime.Threads {
			if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", th.TID)); err == nil {
				living++
			} else {
				ended++
			}
		}
		return living, ended
	}
	release := make(chan struct{})
	var running sync.WaitGroup
	for range 50 {
		running.Add(1)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			running.Done()
			<-release
		}()
	}
	running.Wait()
	most, _ := listed()
	if most < 50 {
		t.Fatalf("%d threads are listed, want 50 and more", most)
	}
	close(release)
	eventually(t, "the ended threads are forgotten", func() bool {
		living, ended := listed()
		return living <= most-45 && ended == 0 // the first thread of a process never ends
	})
}
