package testkit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// builds remembers the folder that holds the programs of this test process.
var builds struct {
	once sync.Once
	dir  string
	err  error
}

// Programs builds felixd and felix once per test process, with the race
// detector when the tests have it, and returns the folder that holds both.
// FELIX_TEST_BIN names a folder with ready-made programs instead.
func Programs(t testing.TB) string {
	t.Helper()
	builds.once.Do(func() {
		if dir := os.Getenv("FELIX_TEST_BIN"); dir != "" {
			builds.dir, builds.err = filepath.Abs(dir)
			return
		}
		builds.dir, builds.err = os.MkdirTemp("", "felix-programs-")
		if builds.err != nil {
			return
		}
		args := []string{"build", "-o", builds.dir + "/"}
		if raceEnabled {
			args = append(args, "-race")
		}
		cmd := exec.Command("go", append(args, "felix/cmd/felixd", "felix/cmd/felix")...)
		if out, err := cmd.CombinedOutput(); err != nil {
			builds.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if builds.err != nil {
		t.Fatalf("build the programs: %v", builds.err)
	}
	return builds.dir
}

// RemovePrograms deletes what Programs built. Call it at the end of TestMain.
func RemovePrograms() {
	if builds.dir != "" && os.Getenv("FELIX_TEST_BIN") == "" {
		_ = os.RemoveAll(builds.dir) // a left-over folder in the temporary directory harms nobody
	}
}

// FreeUDPPort returns a UDP port on 127.0.0.1 that was free a moment ago.
func FreeUDPPort(t testing.TB) int {
	t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).Port
}

// Daemon is a felixd process. Methods are for one goroutine; the process may
// be signalled from any.
type Daemon struct {
	DataDir string
	Addr    string
	Cmd     *exec.Cmd

	t    testing.TB
	args []string
	env  []string
	log  *lockedBuffer
	done chan struct{}
	err  error
}

// StartDaemon starts `felixd --dev` on a free port with a data directory of
// its own, waits until it is ready, and stops it when the test ends. Further
// arguments are appended; env entries (KEY=VALUE) are added to the environment.
func StartDaemon(t testing.TB, env []string, args ...string) *Daemon {
	t.Helper()
	d := &Daemon{
		DataDir: filepath.Join(t.TempDir(), "data"),
		Addr:    fmt.Sprintf("127.0.0.1:%d", FreeUDPPort(t)),
		t:       t, args: args, env: env,
	}
	t.Cleanup(func() {
		if d.Running() {
			d.Stop(syscall.SIGTERM)
		}
		if t.Failed() {
			t.Logf("felixd said:\n%s", d.Log())
		}
	})
	d.Start()
	return d
}

// Start starts the process (again) with the same address and data directory
// and waits until it is ready.
func (d *Daemon) Start() {
	d.t.Helper()
	args := append([]string{"--dev", "--data-dir", d.DataDir, "--listen", d.Addr}, d.args...)
	d.Cmd = exec.Command(filepath.Join(Programs(d.t), "felixd"), args...)
	d.Cmd.Env = append(os.Environ(), d.env...)
	if d.log == nil {
		d.log = &lockedBuffer{}
	}
	d.Cmd.Stdout, d.Cmd.Stderr = d.log, d.log
	if err := d.Cmd.Start(); err != nil {
		d.t.Fatalf("start felixd: %v", err)
	}
	d.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		d.err = cmd.Wait()
		close(done)
	}(d.Cmd, d.done)
	Eventually(d.t, 30*time.Second, "felixd is ready", func() bool {
		if !d.Running() {
			d.t.Fatalf("felixd ended before it was ready: %v\n%s", d.err, d.Log())
		}
		return d.ready()
	})
}

func (d *Daemon) ready() bool {
	var endpoint struct {
		PID int `json:"pid"`
	}
	text, err := os.ReadFile(filepath.Join(d.DataDir, "endpoint.json"))
	return err == nil && json.Unmarshal(text, &endpoint) == nil && endpoint.PID == d.Cmd.Process.Pid
}

// Running reports whether the process has not ended yet.
func (d *Daemon) Running() bool {
	if d.done == nil {
		return false
	}
	select {
	case <-d.done:
		return false
	default:
		return true
	}
}

// Signal sends sig to the process without waiting.
func (d *Daemon) Signal(sig os.Signal) {
	d.t.Helper()
	if err := d.Cmd.Process.Signal(sig); err != nil {
		d.t.Fatalf("signal felixd: %v", err)
	}
}

// Stop sends sig, waits for the end and returns the exit error of the process.
func (d *Daemon) Stop(sig os.Signal) error {
	d.t.Helper()
	d.Signal(sig)
	return d.Wait(45 * time.Second)
}

// Wait waits for the process to end and returns its exit error; a process that
// outlives the given time is killed and fails the test.
func (d *Daemon) Wait(within time.Duration) error {
	d.t.Helper()
	select {
	case <-d.done:
		return d.err
	case <-time.After(within):
		_ = d.Cmd.Process.Kill() // the failure below says what happened
		<-d.done
		d.t.Fatalf("felixd was still running after %v\n%s", within, d.Log())
		return nil
	}
}

// Log returns what the daemon printed so far, both streams together.
func (d *Daemon) Log() string { return d.log.String() }

// lockedBuffer lets a test read what a running process writes.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
