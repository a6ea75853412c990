package daemon

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"felix/broker/auth"
	"felix/client"
	"felix/internal/testkit"
	"felix/transport"
)

// built is everything that Config turns into before anything is started.
func built(t *testing.T, c Config) []any {
	t.Helper()
	b, err := c.brokerOptions()
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.sessionConfig()
	if err != nil {
		t.Fatal(err)
	}
	tr, err := c.transportConfig(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	tr.Logger, tr.Socket.Notice = nil, nil
	return []any{b, s, tr}
}

// shownElsewhere names the test that shows the effect of a setting which is
// not handed to another package.
var shownElsewhere = map[string]func(*testing.T){
	"dev":                       effectOfDev,
	"profile":                   effectOfProfile,
	"data_dir":                  TestStopLeavesOnlyWhatIsKept,
	"admin_socket":              effectOfAdminSocket,
	"metrics_bind":              effectOfMetricsBind,
	"log_level":                 effectOfLogSettings,
	"log_format":                effectOfLogSettings,
	"shutdown_drain_timeout_ms": TestStopIsCutShortByItsBudget,
	"worker_threads":            effectOfWorkerThreads,
	"conn_stats_ms":             effectOfConnStats,
	"disable_timings":           effectOfDisableTimings,
	"probes":                    TestProbes,
	"probes_required":           TestProbes,
	"probes_pin_dir":            TestProbes,
	"quic_bind":                 effectOfQUICBind,
	"tls_cert_file":             TestOwnCertificate,
	"tls_key_file":              TestOwnCertificate,
	"tls_names":                 effectOfTLSNames,
	"jwks_file":                 effectOfJWKSFile,
	"registry":                  effectOfRegistry,
}

// TestEverySettingHasAnEffect fails for a setting that changes nothing.
func TestEverySettingHasAnEffect(t *testing.T) {
	for _, s := range Settings() {
		t.Run(s.Key, func(t *testing.T) {
			if show, ok := shownElsewhere[s.Key]; ok {
				show(t)
				return
			}
			base := DefaultConfig(false)
			base.FanoutBatchSize = base.EventBatchMaxEvents // each of the two must count alone
			changed := base
			text := altered(t, &changed, s)
			if err := applyTexts(&changed, map[string]string{s.Env: text}, map[string]string{}, map[string]string{}); err != nil {
				t.Fatal(err)
			}
			if reflect.DeepEqual(built(t, base), built(t, changed)) {
				t.Errorf("%s = %s changes nothing that is built", s.Key, text)
			}
		})
	}
}

func effectOfDev(t *testing.T) {
	c := testConfig(t)
	c.Dev, c.AutoCreate, c.Registry = false, false, Registry{}
	d, _ := startDaemon(t, c)
	if _, err := ReadEndpoint(c.DataDir); err == nil || d.Broker().HasNamespace(DevTenant, DevNamespace) {
		t.Error("without dev there is an endpoint file or the tenant of development mode")
	}
	c = testConfig(t)
	c.Registry = Registry{} // a file may have replaced the default
	d, _ = startDaemon(t, c)
	if _, err := ReadEndpoint(c.DataDir); err != nil || !d.Broker().HasNamespace(DevTenant, DevNamespace) {
		t.Errorf("with dev the endpoint file or the tenant is missing: %v", err)
	}
}

func effectOfProfile(t *testing.T) {
	l, err := Load(LoadRequest{Flags: map[string]string{"profile": "lossless"}, Environ: []string{"FELIX_ACK_WAIT_TIMEOUT_MS=5"}})
	if err != nil {
		t.Fatal(err)
	}
	c := l.Config
	if c.SubscriberQueuePolicy != "block" || !c.AckOnCommit || !c.PubIngressWait || c.PublishQueueWaitTimeoutMS != losslessWaitMS {
		t.Errorf("lossless: %+v", c)
	}
	if c.AckWaitTimeoutMS != 5 {
		t.Error("the environment does not beat a profile")
	}
}

func effectOfAdminSocket(t *testing.T) {
	c := testConfig(t)
	c.AdminSocket = filepath.Join(filepath.Dir(c.DataDir), "elsewhere.sock")
	d, _ := startDaemon(t, c)
	if code, _ := admin(t, d, http.MethodGet, "/v1/status", ""); code != http.StatusOK || d.AdminSocket() != c.AdminSocket {
		t.Errorf("admin interface at %s: %d", d.AdminSocket(), code)
	}
	c = testConfig(t)
	c.AdminSocket = off
	d, _ = startDaemon(t, c)
	if d.AdminSocket() != "" {
		t.Error("off is ignored")
	}
	if _, err := os.Stat(filepath.Join(c.DataDir, AdminSocketName)); err == nil {
		t.Error("a socket was made")
	}
}

func effectOfMetricsBind(t *testing.T) {
	c := testConfig(t)
	c.MetricsBind = off
	d, _ := startDaemon(t, c)
	if d.MetricsAddr() != "" {
		t.Errorf("metrics at %s", d.MetricsAddr())
	}
	d, _ = startDaemon(t, testConfig(t))
	if code, _ := get(t, "http://"+d.MetricsAddr()+"/metrics"); code != http.StatusOK {
		t.Errorf("/metrics = %d", code)
	}
}

func effectOfLogSettings(t *testing.T) {
	for _, c := range []struct{ level, format, want string }{
		{"info", "text", "level=INFO msg=m\n"}, {"info", "json", `"level":"INFO","msg":"m"}` + "\n"}, {"warn", "text", ""},
	} {
		var b bytes.Buffer
		log, _, err := NewLogger(&b, c.level, c.format)
		if err != nil {
			t.Fatal(err)
		}
		log.Info("m")
		if !strings.HasSuffix(b.String(), c.want) || c.want == "" && b.Len() > 0 {
			t.Errorf("%s %s: %q", c.level, c.format, b.String())
		}
	}
}

func effectOfWorkerThreads(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	c := testConfig(t)
	c.WorkerThreads = before + 3
	d, _ := startDaemon(t, c)
	if got := runtime.GOMAXPROCS(0); got != before+3 {
		t.Errorf("GOMAXPROCS = %d, want %d", got, before+3)
	}
	stopDaemon(t, d)
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("GOMAXPROCS after the stop = %d, want %d", got, before)
	}
}

func effectOfConnStats(t *testing.T) {
	c := testConfig(t)
	c.ConnStatsMS = 5
	d, log := startDaemon(t, c)
	connect(t, d)
	testkit.Eventually(t, 20*time.Second, "a line about the connection", func() bool {
		return strings.Contains(log.String(), "msg=connection") && strings.Contains(log.String(), "rtt_us=")
	})
}

func effectOfDisableTimings(t *testing.T) {
	for _, disabled := range []bool{false, true} {
		c := testConfig(t)
		c.DisableTimings = disabled
		d, _ := startDaemon(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := connect(t, d).Publish(ctx, "s", []byte("x")); err != nil {
			t.Fatal(err)
		}
		recorded := func() bool {
			for _, w := range d.Broker().Wakeups() {
				if w.Stage == "ingress" {
					return w.Wakeups > 0
				}
			}
			return false
		}
		if disabled {
			if recorded() {
				t.Error("wakeups are recorded although timings are disabled")
			}
		} else {
			testkit.Eventually(t, 20*time.Second, "wakeups are recorded", recorded)
		}
	}
}

func effectOfQUICBind(t *testing.T) {
	c := testConfig(t)
	c.QUICBind = "127.0.0.2:0"
	d, _ := startDaemon(t, c)
	if !strings.HasPrefix(d.Addr(), "127.0.0.2:") {
		t.Errorf("bound to %s", d.Addr())
	}
}

func effectOfTLSNames(t *testing.T) {
	c := testConfig(t)
	c.TLSNames = []string{"broker.example", "192.0.2.7"}
	d, _ := startDaemon(t, c)
	for _, name := range append(c.TLSNames, "localhost", "127.0.0.1") {
		if err := d.Identity().Certificate().Leaf.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
}

func effectOfRegistry(t *testing.T) {
	c := testConfig(t)
	c.AutoCreate = false
	c.Registry = Registry{
		Tenants: []string{"t3"}, Namespaces: []NamespaceEntry{{"t2", "n"}},
		Streams: []StreamEntry{{Tenant: "t1", Namespace: "n1", Stream: "s", RingEntries: 5}}, Caches: []CacheEntry{{"t1", "n2", "c"}},
	}
	d, _ := startDaemon(t, c)
	if b := d.Broker(); !b.HasNamespace("t2", "n") || !b.HasNamespace("t1", "n1") || !b.HasNamespace("t1", "n2") || len(b.Streams()) != 1 || len(b.Caches()) != 1 {
		t.Errorf("streams %v, caches %v", b.Streams(), b.Caches())
	}
}

// issue signs a token with the key in a data directory.
func issue(t *testing.T, dataDir, tenant string) string {
	t.Helper()
	key, err := auth.LoadSigningKey(SigningKeyFile(dataDir))
	if err != nil {
		t.Fatal(err)
	}
	return sign(t, key, tenant)
}

func sign(t *testing.T, key auth.SigningKey, tenant string) string {
	t.Helper()
	token, err := auth.NewIssuer(key).Issue(auth.DemoClaims(tenant))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func effectOfJWKSFile(t *testing.T) {
	oldKey, newKey := newSigningKey(t, "old"), newSigningKey(t, "new")
	c := testConfig(t)
	c.Dev = false
	c.JWKSFile = filepath.Join(t.TempDir(), "jwks.json")
	writeKeySet(t, c.JWKSFile, oldKey)
	d, _ := startDaemon(t, c)
	if _, err := os.Stat(SigningKeyFile(c.DataDir)); err == nil {
		t.Error("a signing key was made although jwks_file is set")
	}
	ca := filepath.Join(c.DataDir, caName)
	old := client.Config{Addr: d.Addr(), CAFile: ca, Tenant: "t1", Token: sign(t, oldKey, "t1")}
	renewed := old
	renewed.Token = sign(t, newKey, "t1")
	connectWith(t, old)
	refused(t, renewed)
	writeKeySet(t, c.JWKSFile, newKey)
	if err := d.Reload(); err != nil {
		t.Fatal(err)
	}
	connectWith(t, renewed)
	refused(t, old)
	if err := os.WriteFile(c.JWKSFile, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Reload(); err == nil {
		t.Error("a broken key set was taken over")
	}
	connectWith(t, renewed)
}

func refused(t *testing.T, c client.Config) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cl, err := client.Connect(ctx, c)
	if err == nil {
		cl.Close(ctx)
		t.Error("a token with an unknown key was accepted")
	}
}

func newSigningKey(t *testing.T, id string) auth.SigningKey {
	t.Helper()
	key, err := auth.GenerateKey(id)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writeKeySet(t *testing.T, path string, key auth.SigningKey) {
	t.Helper()
	if err := auth.WriteKeySet(path, auth.NewKeySet(key.Public())); err != nil {
		t.Fatal(err)
	}
}

// writeCertificate makes a certificate for name and returns its two files.
func writeCertificate(t *testing.T, name string) (certFile, keyFile string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// What a window of 0 stands for is said in the settings and decided in the
// transport.
func TestDocumentedWindows(t *testing.T) {
	stream, conn := transport.ListenerWindows()
	for key, bytes := range map[string]uint64{
		"stream_initial_window": stream.Initial, "cache_stream_recv_window": stream.Max,
		"conn_initial_window": conn.Initial, "cache_conn_recv_window": conn.Max,
	} {
		if doc, want := settingDocs[key].Doc, fmt.Sprintf("0: %d MiB.", bytes>>20); !strings.HasSuffix(doc, want) {
			t.Errorf("%s: the description does not end with %q: %s", key, want, doc)
		}
	}
}
