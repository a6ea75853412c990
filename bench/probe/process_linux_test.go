package probe

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shell starts a shell that runs script; $0 is the name of the subcommand.
func shell(t *testing.T, ctx context.Context, script string) *Child {
	t.Helper()
	c, err := Launcher{Program: "/bin/sh", Args: []string{"-c", script}}.Start(ctx, "receiver", map[string]int{"n": 7}, ChildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	return c
}

func TestChildTalks(t *testing.T) {
	// $1 and $2 are --spec and its text.
	c := shell(t, t.Context(), `read line; echo "{\"name\":\"$0\",\"flag\":\"$1\",\"spec\":$2,\"line\":$line}"`)
	if err := c.Tell("hello"); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Name, Flag, Line string
		Spec             struct{ N int }
	}
	if err := c.Hear(&got); err != nil {
		t.Fatal(err)
	}
	if got.Name != "receiver" || got.Flag != "--spec" || got.Spec.N != 7 || got.Line != "hello" {
		t.Errorf("heard %+v", got)
	}
	if err := c.Hear(&got); !errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "the receiver process ended without a result") {
		t.Errorf("after the end: %v", err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("wait: %v", err)
	}
}

func TestChildSaysHowItEnded(t *testing.T) {
	for name, c := range map[string]struct{ script, says string }{
		"exit code":    {"exit 4", "the receiver process ended without a result: exit status 4"},
		"own words":    {"echo first >&2; echo 'felix: what: why' >&2; exit 1", "the receiver process: felix: what: why"},
		"panic":        {"printf 'panic: boom\\n\\ngoroutine 1 [running]:\\nmain.main()\\n' >&2; exit 2", "the receiver process: panic: boom"},
		"killed":       {"kill -9 $$", "signal: killed"},
		"nonsense":     {"echo pardon; exec sleep 60", "the receiver process: invalid character"},
		"half a word":  {`printf '{"a":'; exit 3`, "exit status 3"},
		"cut but fine": {`printf '{"a":'`, "unexpected EOF"},
	} {
		var into any
		err := shell(t, t.Context(), c.script).Hear(&into)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

func TestChildIsKilled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	byContext := shell(t, ctx, "exec sleep 600")
	byHand := shell(t, t.Context(), "exec sleep 600")
	cancel()
	byHand.Kill()
	byHand.Kill() // once is enough
	if err := byContext.Wait(); err == nil {
		t.Error("ended without an error")
	}
	for _, c := range []*Child{byContext, byHand} {
		if err := syscall.Kill(c.PID(), 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d: %v, want none", c.PID(), err)
		}
	}
}

// TestChildHasItsOwnGroup: an interrupt from the terminal reaches the program,
// which then ends its children, and not the children on their own.
func TestChildHasItsOwnGroup(t *testing.T) {
	c := shell(t, t.Context(), "exec sleep 600")
	group, err := syscall.Getpgid(c.PID())
	if err != nil {
		t.Fatal(err)
	}
	if group != c.PID() || group == syscall.Getpgrp() {
		t.Errorf("group %d of process %d, ours is %d", group, c.PID(), syscall.Getpgrp())
	}
}

func TestChildGetsFilesAndEnvironment(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c, err := Launcher{Program: "/bin/sh", Args: []string{"-c", `echo "$GREETING" >&3`}}.
		Start(t.Context(), "x", nil, ChildOptions{Env: []string{"GREETING=hello"}, Files: []*os.File{w}})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	_ = r.SetReadDeadline(time.Now().Add(30 * time.Second))
	text, err := io.ReadAll(r)
	if err != nil || string(text) != "hello\n" {
		t.Errorf("%q, %v", text, err)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

func TestStartFails(t *testing.T) {
	if _, err := (Launcher{Program: "/nonexistent/felix"}).Start(t.Context(), "receiver", nil, ChildOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such program: %v", err)
	}
	if _, err := (Launcher{}).Start(t.Context(), "receiver", func() {}, ChildOptions{}); err == nil {
		t.Error("a spec that is no JSON was accepted")
	}
}
