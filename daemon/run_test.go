package daemon

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"felix/client"
	"felix/internal/testkit"
)

func TestServesPublishSubscribeAndCache(t *testing.T) {
	d, _ := startDaemon(t, testConfig(t))
	c := connect(t, d)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := c.Subscribe(ctx, "orders")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Publish(ctx, "orders", []byte("one")); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Next(ctx); err != nil || string(e.Payload) != "one" {
		t.Errorf("Next = %q, %v", e.Payload, err)
	}
	if err := c.Cache("prices").Put(ctx, "k", []byte("v"), 0); err != nil {
		t.Fatal(err)
	}
	if v, ok, err := c.Cache("prices").Get(ctx, "k"); err != nil || !ok || string(v) != "v" {
		t.Errorf("Get = %q %v %v", v, ok, err)
	}
}

func listDir(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestStopLeavesOnlyWhatIsKept(t *testing.T) {
	c := testConfig(t)
	d, _ := startDaemon(t, c)
	connect(t, d)
	if got, want := listDir(t, c.DataDir), "admin.sock ca.pem endpoint.json identity.pem jwks.json lock signing-key.json token"; got != want {
		t.Errorf("running: files are %q, want %q", got, want)
	}
	for name, mode := range map[string]fs.FileMode{"": 0o700, "identity.pem": 0o600, "signing-key.json": 0o600, "token": 0o600, "endpoint.json": 0o600, "admin.sock": 0o600} {
		info, err := os.Stat(filepath.Join(c.DataDir, name))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("mode of %q = %v, %v; want %v", name, info.Mode().Perm(), err, mode)
		}
	}
	addr, metrics := d.Addr(), d.MetricsAddr()
	stopDaemon(t, d)
	if got, want := listDir(t, c.DataDir), "ca.pem identity.pem jwks.json lock signing-key.json token"; got != want {
		t.Errorf("stopped: files are %q, want %q", got, want)
	}
	u, err := net.ListenPacket("udp", addr)
	if err != nil {
		t.Errorf("the UDP port is still taken: %v", err)
	} else {
		u.Close()
	}
	l, err := net.Listen("tcp", metrics)
	if err != nil {
		t.Errorf("the TCP port is still taken: %v", err)
	} else {
		l.Close()
	}
}

// TestRestartKeepsIdentity is field case F36: certificate, reset key and
// signing key must be the same after a restart, or every client is locked out.
func TestRestartKeepsIdentity(t *testing.T) {
	c := testConfig(t)
	first, _ := startDaemon(t, c)
	e, err := ReadEndpoint(c.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(e.TokenFile)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(e.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	cert, reset := first.Identity().Certificate().Leaf.Raw, *first.Identity().ResetKey()
	stopDaemon(t, first)
	second, _ := startDaemon(t, c)
	if !bytes.Equal(second.Identity().Certificate().Leaf.Raw, cert) || *second.Identity().ResetKey() != reset {
		t.Error("the restarted daemon has another certificate or reset key")
	}
	if after, err := os.ReadFile(e.CAFile); err != nil || !bytes.Equal(after, ca) {
		t.Errorf("the CA file changed: %v", err)
	}
	// What a client kept from before the restart still opens the door.
	connectWith(t, client.Config{Addr: second.Addr(), CAFile: e.CAFile, Tenant: DevTenant, Token: strings.TrimSpace(string(token))})
}

func TestRelativeDataDirectory(t *testing.T) {
	t.Chdir(filepath.Dir(shortDir(t)))
	c := testConfig(t)
	c.DataDir = "data"
	d, _ := startDaemon(t, c)
	e, err := ReadEndpoint("data")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{d.DataDir(), e.CAFile, e.TokenFile, e.AdminSocket} {
		if !filepath.IsAbs(path) {
			t.Errorf("%s is not absolute", path)
		}
	}
}

func TestOneDaemonPerDataDirectory(t *testing.T) {
	c := testConfig(t)
	startDaemon(t, c)
	_, err := Start(t.Context(), Options{Config: c})
	if !errors.Is(err, ErrDataDirInUse) || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("second start: %v", err)
	}
	if _, err := ReadEndpoint(c.DataDir); err != nil {
		t.Errorf("the second start damaged the first one's files: %v", err)
	}
}

func TestStartErrorsAreClear(t *testing.T) {
	busy, _ := startDaemon(t, testConfig(t))
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	notADir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(notADir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	openKey := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(openKey, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"UDP port in use", func(c *Config) { c.QUICBind = busy.Addr() }, "listen on UDP " + busy.Addr() + ": address already in use (another process has it"},
		{"TCP port in use", func(c *Config) { c.Dev = false; c.MetricsBind = tcp.Addr().String() }, "listen on TCP " + tcp.Addr().String() + ": address already in use"},
		{"foreign address", func(c *Config) { c.Dev = false; c.QUICBind = "192.0.2.1:5000" }, "listen on UDP 192.0.2.1:5000: cannot assign requested address (this host has no such address)"},
		{"data directory is a file", func(c *Config) { c.DataDir = notADir }, "data directory " + notADir + ": "},
		{"no key in the file", func(c *Config) { c.Dev = false; c.TLSCertFile, c.TLSKeyFile = openKey, openKey }, "certificate: "},
		{"no such key set", func(c *Config) { c.Dev = false; c.JWKSFile = "/does/not/exist" }, "jwks_file: "},
		{"socket path too long", func(c *Config) { c.AdminSocket = "/tmp/" + strings.Repeat("x", 120) }, "a unix socket's may have 103 (set admin_socket"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := testConfig(t)
			c.change(&cfg)
			d, err := Start(t.Context(), Options{Config: cfg})
			if err == nil {
				stopDaemon(t, d)
				t.Fatal("started")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %q\nwant %q", err, c.want)
			}
			if _, err := os.Stat(filepath.Join(cfg.DataDir, endpointName)); err == nil {
				t.Error("a failed start left endpoint.json")
			}
		})
	}
}

func TestDevelopmentModeTakesAnotherMetricsPort(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	c := testConfig(t)
	c.MetricsBind = tcp.Addr().String()
	d, log := startDaemon(t, c)
	if d.MetricsAddr() == tcp.Addr().String() || !strings.Contains(log.String(), "another port was chosen") {
		t.Errorf("metrics at %s, log:\n%s", d.MetricsAddr(), log)
	}
	if code, _ := get(t, "http://"+d.MetricsAddr()+"/live"); code != http.StatusOK {
		t.Errorf("/live on the chosen port: %d", code)
	}
}

func TestHealthAndDrain(t *testing.T) {
	d, _ := startDaemon(t, testConfig(t))
	base := "http://" + d.MetricsAddr()
	for path, want := range map[string]string{"/live": "ok", "/ready": "ok"} {
		if code, text := get(t, base+path); code != http.StatusOK || text != want {
			t.Errorf("%s = %d %q", path, code, text)
		}
	}
	// Hold the drain open to look at it from outside.
	inDrain, goOn := make(chan struct{}), make(chan struct{})
	d.onStop("test", func(context.Context) error { close(inDrain); <-goOn; return nil })
	done := make(chan struct{})
	go func() { defer close(done); stopDaemon(t, d) }()
	<-inDrain
	if code, text := get(t, base+"/ready"); code != http.StatusServiceUnavailable || text != "draining" {
		t.Errorf("/ready while draining = %d %q", code, text)
	}
	if code, _ := get(t, base+"/live"); code != http.StatusOK {
		t.Errorf("/live while draining = %d", code)
	}
	if _, text := admin(t, d, http.MethodGet, "/v1/status", ""); !strings.Contains(text, `"state":"draining"`) {
		t.Errorf("status while draining: %s", text)
	}
	close(goOn)
	<-done
}

// TestDrainTellsClients is the wire side of a shutdown: an event stream whose
// client is connected gets everything, then the connection is closed with the
// reason.
func TestDrainTellsClients(t *testing.T) {
	d, _ := startDaemon(t, testConfig(t))
	c := connect(t, d)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := c.Subscribe(ctx, "orders", client.WithoutResume())
	if err != nil {
		t.Fatal(err)
	}
	const n = 500
	for range n {
		if err := c.Publish(ctx, "orders", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); stopDaemon(t, d) }()
	got := 0
	for {
		_, err := s.Next(ctx)
		if err != nil {
			if !strings.Contains(err.Error(), "shutting down") {
				t.Errorf("the subscription ended with %v, want the broker's reason", err)
			}
			break
		}
		got++
	}
	if got != n {
		t.Errorf("got %d of %d acknowledged events", got, n)
	}
	<-stopped
}

func TestStopIsCutShortByItsBudget(t *testing.T) {
	c := testConfig(t)
	c.ShutdownDrainTimeoutMS, c.DrainGraceMS = 50, 50
	d, err := Start(t.Context(), Options{Config: c})
	if err != nil {
		t.Fatal(err)
	}
	d.onStop("stuck part", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	err = d.Stop(context.Background())
	if !errors.Is(err, ErrAborted) || !strings.Contains(err.Error(), "stuck part") {
		t.Errorf("Stop = %v, want ErrAborted and the name of the step", err)
	}
	if again := d.Stop(context.Background()); !errors.Is(again, ErrAborted) {
		t.Errorf("second Stop = %v", again)
	}
	if _, err := os.Stat(filepath.Join(c.DataDir, endpointName)); err == nil {
		t.Error("endpoint.json is still there")
	}
}

func TestRunStopsWithItsContext(t *testing.T) {
	c := testConfig(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, c, nil) }()
	testkit.Eventually(t, 20*time.Second, "endpoint.json appears", func() bool {
		_, err := ReadEndpoint(c.DataDir)
		return err == nil
	})
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run = %v", err)
	}
}

func TestAnnouncesThreeLines(t *testing.T) {
	var out bytes.Buffer
	c := testConfig(t)
	d, err := Start(t.Context(), Options{Config: c, Announce: &out})
	if err != nil {
		t.Fatal(err)
	}
	defer stopDaemon(t, d)
	want := "address     " + d.Addr() + "\nCA file     " + filepath.Join(c.DataDir, "ca.pem") + "\ntoken file  " + filepath.Join(c.DataDir, "token") + "\n"
	if out.String() != want {
		t.Errorf("announced\n%s\nwant\n%s", out.String(), want)
	}
}

func TestReload(t *testing.T) {
	c := testConfig(t)
	next := c
	next.LogLevel = "debug"
	next.DisableTimings = true
	next.PubQueueDepth = 7
	next.Registry.Streams = []StreamEntry{{Tenant: "t2", Namespace: "n", Stream: "added"}}
	log := &logBuffer{}
	logger, level, err := NewLogger(log, "info", "text")
	if err != nil {
		t.Fatal(err)
	}
	var reloadErr error
	d, err := Start(t.Context(), Options{Config: c, Log: logger, Level: level, Reload: func() (Config, error) { return next, reloadErr }})
	if err != nil {
		t.Fatal(err)
	}
	defer stopDaemon(t, d)
	reloadErr = errors.New("felixd.yaml:1: nonsense")
	if err := d.Reload(); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("Reload of a bad file = %v", err)
	}
	if d.Config().LogLevel != "info" {
		t.Error("a refused reload changed the settings")
	}
	reloadErr = nil
	if err := d.Reload(); err != nil {
		t.Fatal(err)
	}
	if level.Level().String() != "DEBUG" || d.Config().LogLevel != "debug" {
		t.Errorf("log level = %v, %s", level.Level(), d.Config().LogLevel)
	}
	if !d.Broker().HasNamespace("t2", "n") {
		t.Error("the new stream was not registered")
	}
	if !strings.Contains(log.String(), "only a restart takes it over") || !strings.Contains(log.String(), "pub_queue_depth") {
		t.Errorf("no word about pub_queue_depth:\n%s", log)
	}
	if d.Config().PubQueueDepth == 7 {
		t.Error("a setting that needs a restart is reported as in force")
	}
}

// TestOwnCertificate serves a certificate from files and refuses clients that
// trust another one.
func TestOwnCertificate(t *testing.T) {
	cert, key := writeCertificate(t, "broker.example")
	c := testConfig(t)
	c.Dev, c.AutoCreate = false, false
	c.TLSCertFile, c.TLSKeyFile = cert, key
	d, _ := startDaemon(t, c)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(d.Identity().Certificate().Certificate[0], pair.Certificate[0]) {
		t.Error("another certificate is served")
	}
	token := issue(t, c.DataDir, "acme")
	connectWith(t, client.Config{Addr: d.Addr(), CAFile: cert, ServerName: "broker.example", Tenant: "acme", Token: token})
}
