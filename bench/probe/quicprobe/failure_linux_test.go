package quicprobe

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"felix/bench/probe"
	"felix/internal/testkit"
)

// deadline bounds waits that end early when all is well.
const deadline = 30 * time.Second

// endless is a run that does not end by itself while a test looks.
func endless(k Kind) Options {
	o := DefaultOptions(k)
	o.Bytes = 1 << 45
	return o
}

// underWay starts a run and returns when bytes arrive.
func underWay(t *testing.T, ctx context.Context, o Options) *crew {
	t.Helper()
	arrived := int64(0)
	c := newCrew(self(o.Kind), nil, func(n int64) { arrived = n })
	t.Cleanup(c.disband)
	if err := c.assemble(ctx, o, true); err != nil {
		t.Fatal(err)
	}
	if err := c.tell(ctx, doStart); err != nil {
		t.Fatal(err)
	}
	if err := c.await(ctx, func(*member) bool { return arrived > 0 }); err != nil {
		t.Fatal(err)
	}
	return c
}

func never(m *member) bool { return m.done != nil }

func TestKilledProcessIsNamed(t *testing.T) {
	for kind, roles := range rolesOf {
		for _, role := range roles {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			c := underWay(t, ctx, endless(kind))
			for _, m := range c.members {
				if m.role == role {
					if err := syscall.Kill(m.child.PID(), syscall.SIGKILL); err != nil {
						t.Fatal(err)
					}
				}
			}
			err := c.await(ctx, never)
			if err == nil || !strings.Contains(err.Error(), "the "+role+" process") || !strings.Contains(err.Error(), "signal: killed") {
				t.Errorf("%s killed: %v", role, err)
			}
			cancel()
		}
	}
}

// TestInterruptedProcessIsNamed: a process that ends in an orderly way closes its
// connections, which the others notice at once. Still it is the one to name.
func TestTerminatedProcessIsNamed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	c := underWay(t, ctx, endless(Relay))
	i := slices.IndexFunc(c.members, func(m *member) bool { return m.role == roleRelay })
	// To its end of input a process reacts by closing everything.
	if err := c.members[i].child.Tell(command{Do: "something else"}); err != nil {
		t.Fatal(err)
	}
	err := c.await(ctx, never)
	if err == nil || !strings.Contains(err.Error(), `the relay process: unknown command "something else"`) {
		t.Errorf("got %v", err)
	}
}

func TestFailuresBeforeTheStart(t *testing.T) {
	for name, c := range map[string]struct {
		launcher probe.Launcher
		says     string
	}{
		"no program":    {probe.Launcher{Program: "/nonexistent/felix"}, "no such file"},
		"wrong command": {probe.Launcher{Args: []string{"probe", "nothing"}}, "the receiver process: unknown"},
		"says nothing":  {probe.Launcher{Program: "/bin/true"}, "the receiver process ended before the run did"},
	} {
		_, err := Run(t.Context(), small(Raw), c.launcher, nil)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

func TestCancelEndsAllProcesses(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("that will do")
	var children []int
	go func() {
		for len(children) < 2 && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
			children = childrenOf(t, os.Getpid())
		}
		cancel(stop)
	}()
	_, err := Run(ctx, endless(Raw), self(Raw), nil)
	if !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	<-ctx.Done()
	for _, pid := range children {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is still there: %v", pid, err)
		}
	}
}

// TestNothingStaysBehind: when the measuring process is killed, its processes
// end, and no file stays.
func TestNothingStaysBehind(t *testing.T) {
	temp := t.TempDir()
	cmd := exec.Command(os.Args[0], "probe", "relay", "--bytes", strconv.Itoa(1<<45))
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var children []int
	testkit.Eventually(t, deadline, "three processes run", func() bool {
		children = childrenOf(t, cmd.Process.Pid)
		return len(children) == 3
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // reports the kill
	testkit.Eventually(t, deadline, "the processes have ended", func() bool {
		return !slices.ContainsFunc(children, alive)
	})
	left, err := filepath.Glob(filepath.Join(temp, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// childrenOf returns the processes whose parent is pid.
func childrenOf(t *testing.T, pid int) []int {
	var out []int
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Error(err)
	}
	for _, f := range files {
		if child, parent, _ := readStat(f); parent == pid {
			out = append(out, child)
		}
	}
	return out
}

// alive reports whether a process runs; one that nobody has reaped does not.
func alive(pid int) bool {
	_, _, state := readStat(fmt.Sprintf("/proc/%d/stat", pid))
	return state != 0 && state != 'Z'
}

func readStat(file string) (pid, parent int, state byte) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, 0 // it has ended
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	if _, err := fmt.Sscanf(string(text), "%d", &pid); err != nil {
		return 0, 0, 0
	}
	var s string
	if _, err := fmt.Sscanf(rest, "%s %d", &s, &parent); err != nil {
		return 0, 0, 0
	}
	return pid, parent, s[0]
}

func TestCommandLeavesNoFiles(t *testing.T) {
	temp := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "probe", "raw", "--bytes", "1000000", "--allow-small", "--json")
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.NewDecoder(bufio.NewReader(out)).Decode(&r); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(temp, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if r.PayloadBytes != 4*262144 {
		t.Errorf("report %+v", r)
	}
}
