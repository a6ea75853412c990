package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"felix/daemon"
	"felix/internal/testkit"
)

func TestMain(m *testing.M) {
	// Programs built with the race detector sleep for a second at their end.
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	code := m.Run()
	testkit.RemovePrograms()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// startDaemon runs a development broker inside the test.
func startDaemon(t testing.TB, change func(*daemon.Config)) *daemon.Daemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "felix-cli-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := daemon.DefaultConfig(true)
	c.QUICBind, c.MetricsBind, c.DataDir = "127.0.0.1:0", "off", filepath.Join(dir, "data")
	if change != nil {
		change(&c)
	}
	d, err := daemon.Start(t.Context(), daemon.Options{Config: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := d.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return d
}

// result is what a command did.
type result struct {
	code           int
	stdout, stderr string
}

// felix runs a command as Main would, against the broker in dataDir.
func felix(t testing.TB, dataDir, stdin string, args ...string) result {
	t.Helper()
	return felixEnv(t, []string{"FELIX_DATA_DIR=" + dataDir}, strings.NewReader(stdin), args...)
}

func felixEnv(t testing.TB, environ []string, stdin io.Reader, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var out, errs bytes.Buffer
	err := Run(ctx, args, IO{In: stdin, Out: &out, Err: &errs, Environ: environ})
	return result{report(&errs, err), out.String(), errs.String()}
}

// ok fails the test unless the command succeeded, and returns its output.
func (r result) ok(t testing.TB) string {
	t.Helper()
	if r.code != 0 || r.stderr != "" {
		t.Fatalf("exit %d, stderr %q", r.code, r.stderr)
	}
	return r.stdout
}

// fails checks the one line of an error.
func (r result) fails(t testing.TB, code int, want string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit %d, want %d", r.code, code)
	}
	if !strings.HasPrefix(r.stderr, "felix: ") || strings.Count(r.stderr, "\n") != 1 || strings.Contains(r.stderr[7:], "felix: ") {
		t.Errorf("stderr is not one line that starts with felix: once: %q", r.stderr)
	}
	if !strings.Contains(r.stderr, want) {
		t.Errorf("stderr = %q, want %q in it", r.stderr, want)
	}
}
