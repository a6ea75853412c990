package e2e

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"felix/internal/testkit"
)

// seq is what `seq 1 n` prints.
func seq(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

func TestPublishThenReadTheRing(t *testing.T) {
	d := testkit.StartDaemon(t, nil)
	felix(t, d, seq(200_000), "pub", "nums").ok(t)
	out := felix(t, d, "", "sub", "nums", "--from", "earliest", "--count", "1000").ok(t)
	lines := strings.Fields(out)
	if len(lines) != 1000 {
		t.Fatalf("got %d lines, want 1000", len(lines))
	}
	// The ring holds the last 1024 messages.
	if first := lines[0]; first != fmt.Sprint(200_000-1024+1) {
		t.Errorf("oldest message is %s, want %d", first, 200_000-1024+1)
	}
}

// TestLiveSubscriberGetsExactlyWhatWasPublished is `seq 1 5000 | felix pub`
// against a live `felix sub --count 5000`.
func TestLiveSubscriberGetsExactlyWhatWasPublished(t *testing.T) {
	d := testkit.StartDaemon(t, nil)
	const n = 5000
	sub := felixCommand(t, d, "sub", "nums", "--count", fmt.Sprint(n))
	out, err := sub.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	sub.Stderr = &stderr
	if err := sub.Start(); err != nil {
		t.Fatal(err)
	}
	waitForSubscriptions(t, d, 1)
	felix(t, d, seq(n), "pub", "nums").ok(t)
	got, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.Wait(); err != nil {
		t.Fatalf("sub: %v: %s", err, stderr.String())
	}
	if string(got) != seq(n) {
		t.Errorf("the subscriber got %d bytes that differ from the %d published", len(got), len(seq(n)))
	}
}

// waitForSubscriptions asks the daemon, not the clock.
func waitForSubscriptions(t *testing.T, d *testkit.Daemon, n int) {
	t.Helper()
	testkit.Eventually(t, 20*time.Second, fmt.Sprintf("%d live subscriptions", n), func() bool {
		r := felix(t, d, "", "stream", "list", "--json")
		return r.code == 0 && strings.Contains(strings.ReplaceAll(r.stdout, " ", ""), fmt.Sprintf(`"subscriptions":%d`, n))
	})
}

func TestCacheCommands(t *testing.T) {
	d := testkit.StartDaemon(t, nil)
	felix(t, d, "", "cache", "put", "c", "k", "v", "--ttl", "2s").ok(t)
	if out := felix(t, d, "", "cache", "get", "c", "k").ok(t); strings.TrimSpace(out) != "v" {
		t.Errorf("cache get printed %q, want v", out)
	}
	testkit.Eventually(t, 20*time.Second, "the entry expires", func() bool {
		return felix(t, d, "", "cache", "get", "c", "k").code == 1
	})
}

// TestErrorsAreOneLine checks the contract: one line `felix: what: why (what to
// do)`, exit code 1 for failures and 2 for bad usage.
func TestErrorsAreOneLine(t *testing.T) {
	d := testkit.StartDaemon(t, nil)
	for _, c := range []struct {
		name string
		args []string
		code int
	}{
		{"missing cache key", []string{"cache", "get", "c", "nothing"}, 1},
		{"unknown namespace", []string{"--namespace", "nowhere", "pub", "s"}, 1},
		{"cursor past the end", []string{"sub", "s", "--from", "99"}, 1},
		{"no arguments", []string{"pub"}, 2},
		{"unknown flag", []string{"sub", "s", "--sideways"}, 2},
		{"bad number", []string{"sub", "s", "--count", "many"}, 2},
		{"bad token", []string{"--token", "nonsense", "pub", "s"}, 1},
		{"nobody listens", []string{"--addr", "127.0.0.1:1", "pub", "s"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := felix(t, d, "x\n", c.args...)
			if r.code != c.code {
				t.Errorf("exit code %d, want %d (%s)", r.code, c.code, r.stderr)
			}
			if lines := strings.Split(strings.TrimSuffix(r.stderr, "\n"), "\n"); len(lines) != 1 || !strings.HasPrefix(lines[0], "felix: ") {
				t.Errorf("stderr is not one line that starts with 'felix: ':\n%s", r.stderr)
			}
		})
	}
}
