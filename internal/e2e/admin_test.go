package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"felix/daemon"
	"felix/internal/testkit"
)

// admin sends a request to the daemon's admin interface and returns the body.
func admin(t *testing.T, d *testkit.Daemon, method, path, body string) []byte {
	t.Helper()
	c := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "unix", filepath.Join(d.DataDir, "admin.sock"))
		},
	}}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://felixd"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 {
		t.Fatalf("%s %s: status %d, %v: %s", method, path, resp.StatusCode, err, text)
	}
	return text
}

func adminGet[T any](t *testing.T, d *testkit.Daemon, path string) (v T) {
	t.Helper()
	text := admin(t, d, http.MethodGet, path, "")
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s: %v in %s", path, err, text)
	}
	return v
}

// subscriptions returns the daemon's view of the subscriptions to a stream.
func subscriptions(t *testing.T, d *testkit.Daemon, stream string) (out []daemon.SubscriptionReport) {
	t.Helper()
	for _, s := range adminGet[[]daemon.SubscriptionReport](t, d, "/v1/subscriptions") {
		if s.Stream == stream {
			out = append(out, s)
		}
	}
	return out
}

// checkLedger fails the test if any stage of any stream does not balance. It
// returns the stages of one stream by name.
func checkLedger(t *testing.T, d *testkit.Daemon, stream string) map[string]daemon.StageReport {
	t.Helper()
	stages := map[string]daemon.StageReport{}
	for _, l := range adminGet[[]daemon.LedgerReport](t, d, "/v1/ledger") {
		for _, st := range l.Stages {
			if st.Imbalance != 0 {
				t.Errorf("ledger of %s: difference %d in %+v", l.Stream, st.Imbalance, st)
			}
			if l.Stream == stream {
				stages[st.Stage] = st
			}
		}
	}
	if stages["fanout"].Stage == "" {
		t.Fatalf("no ledger of stream %s", stream)
	}
	return stages
}

// metric returns a value of the daemon's metrics that has no labels.
func metric(t *testing.T, d *testkit.Daemon, name string) (v float64) {
	t.Helper()
	for line := range strings.Lines(string(admin(t, d, http.MethodGet, "/v1/metrics", ""))) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			if _, err := fmt.Sscan(rest, &v); err != nil {
				t.Fatalf("metric %s: %v", line, err)
			}
			return v
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
