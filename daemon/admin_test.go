package daemon

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"felix/internal/testkit"
)

func decode[T any](t *testing.T, code int, body string) T {
	t.Helper()
	var v T
	if code != http.StatusOK {
		t.Fatalf("answer %d %s", code, body)
	}
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return v
}

func adminGet[T any](t *testing.T, d *Daemon, path string) T {
	t.Helper()
	code, body := admin(t, d, http.MethodGet, path, "")
	return decode[T](t, code, body)
}

func TestAdminStatus(t *testing.T) {
	c := testConfig(t)
	d, _ := startDaemon(t, c)
	s := adminGet[Status](t, d, "/v1/status")
	if s.State != "ok" || s.Addr != d.Addr() || s.MetricsAddr != d.MetricsAddr() || s.PID != os.Getpid() || s.DataDir != c.DataDir ||
		!s.Dev || s.Version != Version || s.Engine == "" || s.PacketCeilingBytes < 1200 {
		t.Errorf("status = %+v", s)
	}
}

func TestAdminStreams(t *testing.T) {
	d, _ := startDaemon(t, testConfig(t))
	body := `{"tenant":"t1","namespace":"default","name":"a/b c","ring_entries":3}`
	for _, want := range []bool{true, false} {
		code, text := admin(t, d, http.MethodPost, "/v1/streams", body)
		if got := decode[Created](t, code, text); got.Created != want {
			t.Errorf("created = %v, want %v", got.Created, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := connect(t, d)
	for range 5 {
		if err := c.Publish(ctx, "a/b c", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Subscribe(ctx, "a/b c"); err != nil {
		t.Fatal(err)
	}
	var list []StreamReport
	testkit.Eventually(t, 20*time.Second, "all five are published", func() bool {
		list = adminGet[[]StreamReport](t, d, "/v1/streams")
		return len(list) == 1 && list[0].NextSeq == 5
	})
	if s := list[0]; s.Stream != "a/b c" || s.OldestSeq != 2 || s.Subscriptions != 1 || s.RingBytes == 0 {
		t.Errorf("stream = %+v, want a ring of 3 events", s)
	}
	q := url.Values{"tenant": {"t1"}, "namespace": {"default"}, "name": {"a/b c"}}.Encode()
	if code, text := admin(t, d, http.MethodDelete, "/v1/streams?"+q, ""); code != http.StatusOK {
		t.Errorf("delete = %d %s", code, text)
	}
	if code, text := admin(t, d, http.MethodDelete, "/v1/streams?"+q, ""); code != http.StatusNotFound || !strings.Contains(text, "stream not found") {
		t.Errorf("second delete = %d %s", code, text)
	}
}

func TestAdminCaches(t *testing.T) {
	d, _ := startDaemon(t, testConfig(t))
	code, text := admin(t, d, http.MethodPost, "/v1/caches", `{"tenant":"t1","namespace":"default","name":"c"}`)
	if got := decode[Created](t, code, text); !got.Created {
		t.Error("not created")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := connect(t, d).Cache("c").Put(ctx, "k", []byte("v"), 0); err != nil {
		t.Fatal(err)
	}
	if list := adminGet[[]CacheReport](t, d, "/v1/caches"); len(list) != 1 || list[0].Entries != 1 || list[0].Bytes == 0 {
		t.Errorf("caches = %+v", list)
	}
	if code, _ := admin(t, d, http.MethodDelete, "/v1/caches?tenant=t1&namespace=default&name=c", ""); code != http.StatusOK {
		t.Errorf("delete = %d", code)
	}
	if code, _ := admin(t, d, http.MethodDelete, "/v1/caches?tenant=t1&namespace=default&name=c", ""); code != http.StatusNotFound {
		t.Errorf("second delete = %d", code)
	}
}

func TestAdminRefusesNonsense(t *testing.T) {
	d, _ := startDaemon(t, testConfig(t))
	for _, c := range []struct {
		method, path, body string
		code               int
	}{
		{http.MethodPost, "/v1/streams", `{"tenant":"t1"}`, http.StatusBadRequest},
		{http.MethodPost, "/v1/streams", `{`, http.StatusBadRequest},
		{http.MethodPost, "/v1/streams", `{"tenant":"t","namespace":"n","name":"s","label":"x"}`, http.StatusBadRequest},
		{http.MethodPost, "/v1/streams", `{"tenant":"t","namespace":"n","name":"s","ring_entries":-1}`, http.StatusBadRequest},
		{http.MethodPost, "/v1/caches", `{"tenant":"t","namespace":"n","name":"` + strings.Repeat("x", 70_000) + `"}`, http.StatusBadRequest},
		{http.MethodDelete, "/v1/streams", "", http.StatusBadRequest},
		{http.MethodGet, "/v2/streams", "", http.StatusNotFound},
		{http.MethodPut, "/v1/streams", "", http.StatusMethodNotAllowed},
	} {
		if code, text := admin(t, d, c.method, c.path, c.body); code != c.code {
			t.Errorf("%s %s %.60s = %d %s, want %d", c.method, c.path, c.body, code, text, c.code)
		}
	}
}

func TestAdminConnectionsAndSubscriptions(t *testing.T) {
	d, _ := startDaemon(t, testConfig(t))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := connect(t, d)
	s, err := c.Subscribe(ctx, "s")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.PublishBatch(ctx, "s", [][]byte{[]byte("a"), []byte("b")}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := s.Next(ctx); err != nil {
			t.Fatal(err)
		}
	}
	var subs []SubscriptionReport
	testkit.Eventually(t, 20*time.Second, "the subscription has counted both", func() bool {
		subs = adminGet[[]SubscriptionReport](t, d, "/v1/subscriptions")
		return len(subs) == 1 && subs[0].Events == 2
	})
	if r := subs[0]; r.Stream != "s" || r.Tenant != DevTenant || r.Delivered != 2 || r.Dropped != 0 || r.Policy != "drop_new" {
		t.Errorf("subscription = %+v", r)
	}
	conns := adminGet[[]ConnectionReport](t, d, "/v1/connections")
	found := false
	for _, conn := range conns {
		if conn.ID == subs[0].Connection {
			found = conn.Subscriptions == 1 && conn.Tenant == DevTenant && conn.Subject == devSubject && conn.Path != nil && conn.Path.SentPackets > 0
		}
	}
	if !found {
		t.Errorf("connections = %+v", conns)
	}
	for _, l := range adminGet[[]LedgerReport](t, d, "/v1/ledger") {
		for _, st := range l.Stages {
			if st.Imbalance != 0 || st.In == 0 {
				t.Errorf("ledger of %s: %+v", l.Stream, st)
			}
		}
	}
}

func TestAdminMetricsAndConfig(t *testing.T) {
	c := testConfig(t)
	c.RingEntries = 77
	d, _ := startDaemon(t, c)
	if code, text := admin(t, d, http.MethodGet, "/v1/metrics", ""); code != http.StatusOK || !strings.Contains(text, "felix_build_info{") {
		t.Errorf("metrics = %d %.200s", code, text)
	}
	if code, text := admin(t, d, http.MethodGet, "/v1/config", ""); code != http.StatusOK || !strings.Contains(text, "\nring_entries: 77\n") {
		t.Errorf("config = %d %.200s", code, text)
	}
	if code, _ := admin(t, d, http.MethodGet, "/debug/pprof/goroutine", ""); code != http.StatusOK {
		t.Errorf("pprof = %d", code)
	}
}

// TestStaleSocket is a broker that was killed: its socket is still there.
func TestStaleSocket(t *testing.T) {
	c := testConfig(t)
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := c.DataDir + "/" + AdminSocketName
	dead, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	dead.Close()
	d, _ := startDaemon(t, c)
	adminGet[Status](t, d, "/v1/status")
	stopDaemon(t, d)

	alive, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	if _, err := Start(t.Context(), Options{Config: c}); err == nil || !strings.Contains(err.Error(), "another process answers on it") {
		t.Errorf("start over a socket in use: %v", err)
	}
	alive.Close()
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Options{Config: c}); err == nil || !strings.Contains(err.Error(), "no socket is in its place") {
		t.Errorf("start over a file: %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "precious" {
		t.Errorf("the file was touched: %q %v", text, err)
	}
}

// TestMetricsCountWhatHappens checks a few of the exported values, in both
// kinds of names.
func TestMetricsCountWhatHappens(t *testing.T) {
	d, _ := startDaemon(t, testConfig(t))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := connect(t, d)
	if _, err := c.Subscribe(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	if err := c.PublishBatch(ctx, "s", [][]byte{[]byte("abc"), []byte("de")}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`felix_publish_requests_total{result="accepted"} 1`,
		`felix_publish_requests_total{result="dropped"} 0`,
		"felix_publish_bytes_total 5",
		"felix_sub_dequeued_total 1",
		"felix_broker_publish_published_events_total 2",
		`felix_subscribe_requests_total{result="ok"} 1`,
		"felix_session_auth_failed_total 0",
		`felix_quic_handshake_failures_total{kind="alpn"} 0`,
		"felix_udp_received_datagrams_total ",
		`felix_stage_items_per_wakeup_bucket{stage="ingress",le="1"} 1`,
		"felix_ready 1",
		"go_goroutines ",
	}
	var text string
	testkit.Eventually(t, 20*time.Second, "the counters have caught up", func() bool {
		_, text = get(t, "http://"+d.MetricsAddr()+"/metrics")
		return strings.Contains(text, want[3])
	})
	for _, w := range want {
		if !strings.Contains(text, "\n"+w) {
			t.Errorf("no line %q", w)
		}
	}
	if strings.Contains(text, " error") && strings.Contains(text, "collected metric") {
		t.Errorf("inconsistent metrics: %s", text)
	}
}
