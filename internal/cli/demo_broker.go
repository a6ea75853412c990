package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"felix/daemon"
)

const (
	// brokerStart is how long the demo's broker may take to be ready.
	brokerStart = 30 * time.Second
	// brokerStop is how long it may take to end; more than its own budget.
	brokerStop = 30 * time.Second
)

// brokerProcess is a felixd of this demo.
type brokerProcess struct {
	cmd      *exec.Cmd
	logFile  string
	endpoint daemon.Endpoint
	done     chan struct{} // closed when the process has ended
	err      error         // of Wait, valid after done
}

// findFelixd looks beside this program, then in PATH.
func findFelixd() (string, error) {
	if self, err := os.Executable(); err == nil {
		if path, err := filepath.EvalSymlinks(self); err == nil {
			self = path
		}
		sibling := filepath.Join(filepath.Dir(self), "felixd")
		if info, err := os.Stat(sibling); err == nil && info.Mode().IsRegular() {
			return sibling, nil
		}
	}
	path, err := exec.LookPath("felixd")
	if err != nil {
		return "", hint(errors.New("felixd not found"), "make build puts it beside felix; or add it to PATH")
	}
	return path, nil
}

// startBroker starts felixd --dev on a free port and waits until it is ready.
func (a *app) startBroker(ctx context.Context, dataDir, logFile string) (*brokerProcess, error) {
	program, err := findFelixd()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the process has its own
	// An interrupt ends the process by stop, which lets it drain.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, "--dev", "--data-dir", dataDir, "--listen", "127.0.0.1:0", "--metrics", "off", "--profile", "lossless")
	cmd.Env = brokerEnviron(a.io.Environ)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	b := &brokerProcess{cmd: cmd, logFile: logFile, done: make(chan struct{})}
	go func() {
		b.err = cmd.Wait()
		close(b.done)
	}()
	if err := b.waitReady(ctx, dataDir); err != nil {
		return nil, errors.Join(err, b.kill())
	}
	return b, nil
}

// brokerEnviron is the environment of the demo's broker: without the settings
// that are meant for another one, such as its admin socket, its keys and its
// limits. Those of the UDP socket stay: what an offload is worth can be tried out.
func brokerEnviron(environ []string) []string {
	foreign := []string{daemon.EnvConfigFile}
	for _, s := range daemon.Settings() {
		if !strings.HasPrefix(s.Env, "FELIX_UDP_") {
			foreign = append(append(foreign, s.Env), s.Aliases...)
		}
	}
	var out []string
	for _, kv := range environ {
		if name, _, _ := strings.Cut(kv, "="); !slices.Contains(foreign, name) {
			out = append(out, kv)
		}
	}
	return out
}

// waitReady polls for the file that a development broker writes when it serves.
func (b *brokerProcess) waitReady(ctx context.Context, dataDir string) error {
	deadline := time.NewTimer(brokerStart)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if e, err := daemon.ReadEndpoint(dataDir); err == nil && e.PID == b.cmd.Process.Pid {
			b.endpoint = e
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-b.done:
			return b.diedError()
		case <-deadline.C:
			return fmt.Errorf("felixd was not ready within %v: %s", brokerStart, b.lastLine())
		}
	}
}

// diedError says how the broker ended, with its last words.
func (b *brokerProcess) diedError() error {
	return fmt.Errorf("felixd ended (%v): %s", b.cmd.ProcessState, b.lastLine())
}

func (b *brokerProcess) lastLine() string {
	text, err := os.ReadFile(b.logFile)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(lines[len(lines)-1])
}

// stop ends the broker the orderly way; anything but a clean end is an error.
func (b *brokerProcess) stop() error {
	select {
	case <-b.done:
		return b.diedError()
	default:
	}
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return errors.Join(fmt.Errorf("stop felixd: %w", err), b.kill())
	}
	timeout := time.NewTimer(brokerStop)
	defer timeout.Stop()
	select {
	case <-b.done:
		if b.err != nil {
			return b.diedError()
		}
		return nil
	case <-timeout.C:
		return errors.Join(fmt.Errorf("felixd did not end within %v of SIGTERM", brokerStop), b.kill())
	}
}

// kill ends the broker at once.
func (b *brokerProcess) kill() error {
	err := b.cmd.Process.Kill()
	<-b.done
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
