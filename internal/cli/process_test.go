package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"felix/internal/testkit"
)

// program is a felix process against a daemon process.
func program(t *testing.T, d *testkit.Daemon, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(filepath.Join(testkit.Programs(t), "felix"), append([]string{"--data-dir", d.DataDir}, args...)...)
	t.Cleanup(func() {
		if cmd.Process != nil && cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	return cmd
}

// subscribed waits until the daemon counts n subscriptions.
func subscribed(t *testing.T, d *testkit.Daemon, n int) {
	t.Helper()
	testkit.Eventually(t, 30*time.Second, fmt.Sprintf("%d subscriptions", n), func() bool {
		out, err := program(t, d, "stream", "list", "--json").Output()
		if err != nil {
			return false
		}
		var list []struct {
			Subscriptions int `json:"subscriptions"`
		}
		if err := json.Unmarshal(out, &list); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		sum := 0
		for _, s := range list {
			sum += s.Subscriptions
		}
		return sum == n
	})
}

func TestManyLinesThroughProcesses(t *testing.T) {
	const n = 200_000
	d := testkit.StartDaemon(t, nil)
	var want bytes.Buffer
	for i := range n {
		fmt.Fprintln(&want, i)
	}
	sub := program(t, d, "sub", "s", "--count", fmt.Sprint(n))
	var got, errs bytes.Buffer
	sub.Stdout, sub.Stderr = &got, &errs
	if err := sub.Start(); err != nil {
		t.Fatal(err)
	}
	subscribed(t, d, 1)
	pub := program(t, d, "pub", "s")
	pub.Stdin = bytes.NewReader(want.Bytes())
	begin := time.Now()
	if out, err := pub.CombinedOutput(); err != nil {
		t.Fatalf("pub: %v %s", err, out)
	}
	if err := sub.Wait(); err != nil {
		t.Fatalf("sub: %v %s", err, errs.String())
	}
	t.Logf("%d lines in %v", n, time.Since(begin))
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("%d bytes came out, %d went in", got.Len(), want.Len())
	}
}

// TestOutputIsFlushedWhenIdle types into one end of a conversation.
func TestOutputIsFlushedWhenIdle(t *testing.T) {
	d := testkit.StartDaemon(t, nil)
	sub := program(t, d, "sub", "s")
	out, err := sub.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	pub := program(t, d, "pub", "s")
	in, err := pub.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []*exec.Cmd{sub, pub} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	subscribed(t, d, 1)
	lines := bufio.NewReader(out)
	for i := range 3 {
		want := fmt.Sprintf("line %d\n", i)
		if _, err := io.WriteString(in, want); err != nil {
			t.Fatal(err)
		}
		// The next line is only typed when this one has come out at the other end.
		if got, err := lines.ReadString('\n'); err != nil || got != want {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	}
	in.Close()
	if err := pub.Wait(); err != nil {
		t.Errorf("pub: %v", err)
	}
}

func TestInterruptIsQuiet(t *testing.T) {
	d := testkit.StartDaemon(t, nil)
	for sig, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		sub := program(t, d, "sub", "s")
		var out, errs bytes.Buffer
		sub.Stdout, sub.Stderr = &out, &errs
		if err := sub.Start(); err != nil {
			t.Fatal(err)
		}
		subscribed(t, d, 1)
		if out, err := program(t, d, "pub", "s", "--raw", writeFile(t, "x")).CombinedOutput(); err != nil {
			t.Fatalf("pub: %v %s", err, out)
		}
		testkit.Eventually(t, 20*time.Second, "the message is delivered", func() bool {
			text, err := program(t, d, "stream", "list", "--json").Output()
			return err == nil && strings.Contains(string(text), `"next_seq":`)
		})
		if err := sub.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		var exit *exec.ExitError
		if err := sub.Wait(); !errors.As(err, &exit) || exit.ExitCode() != code {
			t.Errorf("%v: exit %v, want %d", sig, err, code)
		}
		if errs.Len() > 0 {
			t.Errorf("%v: stderr %q", sig, errs.String())
		}
		subscribed(t, d, 0) // the broker was told, long before any idle timeout
	}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestClosedPipeIsQuiet is `felix sub s | head -1`.
func TestClosedPipeIsQuiet(t *testing.T) {
	d := testkit.StartDaemon(t, nil)
	sub := program(t, d, "sub", "s")
	out, err := sub.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	sub.Stderr = &errs
	if err := sub.Start(); err != nil {
		t.Fatal(err)
	}
	subscribed(t, d, 1)
	pub := program(t, d, "pub", "s")
	in, err := pub.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := pub.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(in, "first")
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "first\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	out.Close()
	fmt.Fprintln(in, "second") // makes sub write to the closed pipe
	in.Close()
	if err := pub.Wait(); err != nil {
		t.Errorf("pub: %v", err)
	}
	if err := sub.Wait(); err != nil {
		t.Errorf("sub: %v, want exit code 0", err)
	}
	if errs.Len() > 0 {
		t.Errorf("stderr %q", errs.String())
	}
	subscribed(t, d, 0)
}
