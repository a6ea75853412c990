package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"felix/broker"
	"felix/internal/testkit"
	"felix/transport"
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
		want               string
	}{
		{http.MethodPost, "/v1/streams", `{"tenant":"t1"}`, http.StatusBadRequest, "tenant, namespace and name are required"},
		{http.MethodPost, "/v1/streams", `{`, http.StatusBadRequest, "request body: "},
		{http.MethodPost, "/v1/streams", ``, http.StatusBadRequest, "request body: "},
		{http.MethodPost, "/v1/streams", `[]`, http.StatusBadRequest, "request body: "},
		{http.MethodPost, "/v1/streams", `{"tenant":"t","namespace":"n","name":"s","label":"x"}`, http.StatusBadRequest, `request body: /label: unknown member`},
		{http.MethodPost, "/v1/streams", `{"tenant":"t","namespace":"n","name":"s","Name":"x"}`, http.StatusBadRequest, `request body: /Name: unknown member`},
		{http.MethodPost, "/v1/streams", `{"tenant":"t","namespace":"n","name":"s","ring_entries":-1}`, http.StatusBadRequest, "negative ring limit"},
		{http.MethodPost, "/v1/streams", `{"tenant":"t","namespace":"n","name":"s","ring_entries":"1"}`, http.StatusBadRequest, "request body: /ring_entries: "},
		{http.MethodPost, "/v1/streams", `{"tenant":"t","namespace":"n","name":"s"}{}`, http.StatusBadRequest, "request body: "},
		{http.MethodPost, "/v1/streams", `{"tenant":"t","namespace":"n","name":"s"} x`, http.StatusBadRequest, "request body: "},
		{http.MethodPost, "/v1/streams", `{"tenant":"t","namespace":"n","name":"s","name":"s"}`, http.StatusBadRequest, `request body: /name: duplicate`},
		{http.MethodPost, "/v1/streams", "{\"tenant\":\"t\",\"namespace\":\"n\",\"name\":\"\xff\"}", http.StatusBadRequest, "UTF-8"},
		{http.MethodPost, "/v1/streams", `{"tenant":"t","namespace":"n","name":"\ud800"}`, http.StatusBadRequest, "request body: "},
		{http.MethodPost, "/v1/streams", `{"tenant":"` + strings.Repeat("x", 1<<20) + `"}`, http.StatusRequestEntityTooLarge, "request body: larger than 1048576 bytes"},
		{http.MethodPost, "/v1/caches", `{"tenant":"t","namespace":"n","name":"c","ring_entries":1}`, http.StatusBadRequest, `request body: /ring_entries: unknown member`},
		{http.MethodPost, "/v1/caches", `{"tenant":"t","namespace":"n","name":"` + strings.Repeat("x", 1025) + `"}`, http.StatusBadRequest, "invalid name: 1025 bytes, at most 1024 (max_name_bytes)"},
		{http.MethodPost, "/v1/probes", `{"mode":"off","mode":"off"}`, http.StatusBadRequest, `request body: /mode: duplicate`},
		{http.MethodPost, "/v1/probes", `{"mode":"sonar"}`, http.StatusBadRequest, `request body: /mode: `},
		{http.MethodPost, "/v1/probes", `{} {}`, http.StatusBadRequest, `request body: `},
		{http.MethodDelete, "/v1/streams", "", http.StatusBadRequest, "tenant, namespace and name are required"},
		{http.MethodDelete, "/v1/streams?tenant=t&namespace=n&name=%ff", "", http.StatusBadRequest, "name is not UTF-8"},
		{http.MethodDelete, "/v1/caches?tenant=%ff&namespace=n&name=c", "", http.StatusBadRequest, "tenant is not UTF-8"},
		{http.MethodDelete, "/v1/streams?tenant=t&namespace=n&name=a&name=b", "", http.StatusBadRequest, "name is given twice"},
		{http.MethodDelete, "/v1/streams?tenant=t&namespace=n&name=a&%ff=b", "", http.StatusBadRequest, `unknown parameter "\xff"`},
		{http.MethodDelete, "/v1/streams?tenant=t&namespace=n&name=%zz", "", http.StatusBadRequest, "invalid URL escape"},
		{http.MethodDelete, "/v1/streams?tenant=t&namespace=n&name=" + strings.Repeat("%78", 65_535), "", http.StatusNotFound, "stream not found"},
		{http.MethodGet, "/v2/streams", "", http.StatusNotFound, "no such path: /v2/streams"},
		{http.MethodGet, "/", "", http.StatusNotFound, "no such path: /"},
		{http.MethodPut, "/v1/streams", "", http.StatusMethodNotAllowed, "PUT is not allowed here (DELETE, GET, HEAD, POST are)"},
		{http.MethodPost, "/v1/config", "", http.StatusMethodNotAllowed, "POST is not allowed here (GET, HEAD are)"},
	} {
		code, text := admin(t, d, c.method, c.path, c.body)
		var answer struct {
			Error string `json:"error"`
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			t.Errorf("%s %.60s %.60s: %v in %.200s", c.method, c.path, c.body, err, text)
		}
		if code != c.code || !strings.Contains(answer.Error, c.want) || strings.Contains(answer.Error, "daemon.") {
			t.Errorf("%s %.60s %.60s = %d %q, want %d %q", c.method, c.path, c.body, code, answer.Error, c.code, c.want)
		}
	}
	if n := len(adminGet[[]StreamReport](t, d, "/v1/streams")) + len(adminGet[[]CacheReport](t, d, "/v1/caches")); n != 0 {
		t.Errorf("refused requests made %d things", n)
	}
}

// A list is written as it is made: neither its text as a whole nor texts to sort it by are held.
func TestLongListsTakeLittle(t *testing.T) {
	c := testConfig(t)
	c.MaxNameBytes = 65_535
	d, _ := startDaemon(t, c)
	const n = 300
	pad := strings.Repeat("n", 65_000)
	for i := range n {
		key := broker.Key{Tenant: DevTenant, Namespace: DevNamespace, Name: fmt.Sprint(pad, n-i)}
		if err := d.broker.CreateStream(key, broker.StreamOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/v1/streams", "/v1/ledger"} {
		w := &discard{header: http.Header{}}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		h := d.adminHandler()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		h.ServeHTTP(w, r)
		runtime.ReadMemStats(&after)
		if w.n < n*len(pad) {
			t.Errorf("%s: %d bytes written", path, w.n)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > uint64(2*n*len(pad)) {
			t.Errorf("%s: %d bytes allocated for %d bytes of text", path, used, w.n)
		}
	}
	list := adminGet[[]StreamReport](t, d, "/v1/streams")
	if !slices.IsSortedFunc(list, func(a, b StreamReport) int { return strings.Compare(a.Stream, b.Stream) }) || len(list) != n {
		t.Errorf("%d streams, not in order", len(list))
	}
}

// discard is a client that counts.
type discard struct {
	header http.Header
	n      int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(p []byte) (int, error) { d.n += len(p); return len(p), nil }

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

// Two connections of one client socket have the same address; each is shown
// with its own path.
func TestConnectionsOfOneSocket(t *testing.T) {
	d, _ := startDaemon(t, testConfig(t))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tlsConfig, err := transport.ClientTLS(transport.ClientTLSOptions{RootCAs: d.Identity().Pool()})
	if err != nil {
		t.Fatal(err)
	}
	dialer, err := transport.NewDialer(transport.Config{TLS: tlsConfig})
	if err != nil {
		t.Fatal(err)
	}
	defer dialer.Close()
	for range 2 {
		if _, err := dialer.Dial(ctx, d.Addr()); err != nil {
			t.Fatal(err)
		}
	}
	var conns []ConnectionReport
	testkit.Eventually(t, 20*time.Second, "both connections are listed", func() bool {
		conns = adminGet[[]ConnectionReport](t, d, "/v1/connections")
		return len(conns) == 2 && conns[0].Path != nil && conns[1].Path != nil
	})
	if conns[0].RemoteAddr != conns[1].RemoteAddr {
		t.Fatalf("the dialer used two sockets: %+v", conns)
	}
	if conns[0].Path.ID == conns[1].Path.ID {
		t.Errorf("both connections show path %d", conns[0].Path.ID)
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
