package daemon

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"felix/client"
)

func TestMain(m *testing.M) {
	// Programs built with the race detector sleep for a second at their end.
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	goleak.VerifyTestMain(m)
}

// logBuffer is a log that a test reads while the daemon writes it.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// testConfig is development mode on free ports with a directory of its own.
func testConfig(t testing.TB) Config {
	t.Helper()
	c := DefaultConfig(true)
	c.QUICBind = "127.0.0.1:0"
	c.MetricsBind = "127.0.0.1:0"
	c.DataDir = shortDir(t)
	return c
}

// shortDir is like TempDir, but the path leaves room for a unix socket's name.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "felixd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "data")
}

// startDaemon starts a daemon with c and stops it when the test ends.
func startDaemon(t testing.TB, c Config) (*Daemon, *logBuffer) {
	t.Helper()
	log := &logBuffer{}
	d, err := Start(t.Context(), Options{Config: c, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopDaemon(t, d) })
	return d, log
}

func stopDaemon(t testing.TB, d *Daemon) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := d.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// connect returns a client of a development daemon.
func connect(t testing.TB, d *Daemon) *client.Client {
	t.Helper()
	e, err := ReadEndpoint(d.DataDir())
	if err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(e.TokenFile)
	if err != nil {
		t.Fatal(err)
	}
	return connectWith(t, client.Config{
		Addr: e.Addr, CAFile: e.CAFile, Tenant: e.Tenant, Namespace: e.Namespace, Token: strings.TrimSpace(string(token)),
	})
}

func connectWith(t testing.TB, c client.Config) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cl, err := client.Connect(ctx, c)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		cl.Close(ctx)
	})
	return cl
}

// get fetches a page of an HTTP interface.
func get(t testing.TB, url string) (int, string) {
	t.Helper()
	return request(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, http.MethodGet, url, "")
}

func request(t testing.TB, c *http.Client, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, b.String()
}

// admin sends a request to the admin interface.
func admin(t testing.TB, d *Daemon, method, path, body string) (int, string) {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "unix", d.AdminSocket())
		},
	}}
	return request(t, c, method, "http://felixd"+path, body)
}
