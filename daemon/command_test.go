package daemon

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"felix/broker/auth"
	"felix/internal/testkit"
	"felix/transport"
)

// run calls Main like a shell would.
func run(environ []string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Main(args, environ, &out, &errs)
	return code, out.String(), errs.String()
}

func TestCommandWithoutServing(t *testing.T) {
	good := writeConfigFile(t, "ring_entries: 5\n")
	bad := writeConfigFile(t, "ring_entries: x\n")
	for _, c := range []struct {
		name   string
		env    []string
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{"version", nil, []string{"--version"}, 0, "felixd " + Version + "\ncommit  ", ""},
		{"help", nil, []string{"--help"}, 0, "felixd serves the Felix protocol", ""},
		{"completion", nil, []string{"completion", "bash"}, 0, "bash completion", ""},
		{"check good", nil, []string{"--config", good, "--check-config", "--set", "ring_bytes=9"}, 0, "felixd: settings are valid (" + good + ", 0 from the environment, 1 from flags)\n", ""},
		{"check bad", nil, []string{"--config", bad, "--check-config"}, 1, "", "felixd: " + bad + ":1: ring_entries: is \"x\", want a whole number\n"},
		{"check environment", []string{"FELIX_RING_ENTRIES=x"}, []string{"--check-config"}, 1, "", "felixd: environment variable FELIX_RING_ENTRIES: ring_entries: is \"x\""},
		{"missing file", nil, []string{"--config", "/does/not/exist", "--check-config"}, 1, "", "felixd: configuration file: open /does/not/exist: no such file"},
		{"print", nil, []string{"--print-config", "--dev", "--listen", "127.0.0.1:7"}, 0, "# Source: flag --listen.\nquic_bind: 127.0.0.1:7\n", ""},
		{"unknown flag", nil, []string{"--sideways"}, 2, "", "felixd: unknown flag: --sideways"},
		{"argument", nil, []string{"serve"}, 2, "", "felixd: unknown command"},
		{"set without value", nil, []string{"--set", "ring_entries"}, 2, "", "felixd: --set ring_entries: want KEY=VALUE"},
		{"set nothing", nil, []string{"--set", "=5"}, 2, "", "felixd: --set =5: want KEY=VALUE"},
		{"unprintable", nil, []string{"--set", "\x1b[31mx"}, 2, "", `felixd: --set \x1b[31mx: want KEY=VALUE`},
		{"set twice", nil, []string{"--listen", "127.0.0.1:1", "--set", "quic_bind=127.0.0.1:2"}, 2, "", "set twice on the command line"},
		{"public development mode", nil, []string{"--dev", "--listen", "0.0.0.0:1"}, 1, "", "felixd: flag --listen: quic_bind: is \"0.0.0.0:1\", but development mode serves loopback only"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := run(c.env, c.args...)
			if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
				t.Errorf("exit %d\nstdout %q\nstderr %q\nwant %d, %q, %q", code, stdout, stderr, c.code, c.stdout, c.stderr)
			}
			if c.code != 0 && strings.Count(stderr, "\n") != 1 {
				t.Errorf("stderr has not one line: %q", stderr)
			}
		})
	}
}

// --check-config finds what a start would stumble over.
func TestCheckConfigReadsFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	id, err := transport.LoadOrCreateIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(id.Certificate().PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert := write("cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: id.Certificate().Certificate[0]})))
	keyFile := write("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	jwks := filepath.Join(dir, "jwks.json")
	if err := auth.WriteKeySet(jwks, auth.NewKeySet(auth.DemoKey().Public())); err != nil {
		t.Fatal(err)
	}
	bad := write("bad", "{")
	for _, c := range []struct {
		name, text string
		want       string // empty: valid
	}{
		{"good", "jwks_file: " + jwks + "\ntls_cert_file: " + cert + "\ntls_key_file: " + keyFile + "\n", ""},
		{"no key set", "\njwks_file: /does/not/exist\n", ":2: jwks_file: load key set: open /does/not/exist: no such file"},
		{"key set that is none", "jwks_file: " + bad + "\n", ":1: jwks_file: load key set " + bad + ": parse key set:"},
		{"no certificate", "tls_cert_file: /does/not/exist\ntls_key_file: " + keyFile + "\n", ":1: tls_cert_file: open /does/not/exist: no such file"},
		{"certificate that is none", "tls_cert_file: " + bad + "\ntls_key_file: " + keyFile + "\n", ":1: tls_cert_file: "},
		{"no key", "tls_cert_file: " + cert + "\ntls_key_file: /does/not/exist\n", ":2: tls_key_file: open /does/not/exist: no such file"},
		{"key that is none", "tls_cert_file: " + cert + "\ntls_key_file: " + bad + "\n", ":2: tls_key_file: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := writeConfigFile(t, c.text)
			code, stdout, stderr := run(nil, "--config", file, "--check-config")
			if c.want == "" {
				if code != 0 || !strings.Contains(stdout, "settings are valid") {
					t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
				}
			} else if code != 1 || stdout != "" || !strings.Contains(stderr, "felixd: "+file+c.want) {
				t.Errorf("exit %d, stdout %q, stderr %q\nwant %q", code, stdout, stderr, file+c.want)
			}
		})
	}
}

func TestCommandFailsToStart(t *testing.T) {
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	code, stdout, stderr := run(nil, "--dev", "--data-dir", shortDir(t), "--listen", u.LocalAddr().String(), "--metrics", "off", "--log-level", "error")
	if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "address already in use (another process has it") {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// TestSignals runs the real program.
func TestSignals(t *testing.T) {
	t.Cleanup(testkit.RemovePrograms)
	t.Run("SIGTERM drains", func(t *testing.T) {
		d := testkit.StartDaemon(t, nil)
		if err := d.Stop(syscall.SIGTERM); err != nil {
			t.Errorf("exit: %v\n%s", err, d.Log())
		}
		if _, err := os.Stat(filepath.Join(d.DataDir, endpointName)); err == nil {
			t.Error("endpoint.json is still there")
		}
	})
	t.Run("SIGINT drains", func(t *testing.T) {
		d := testkit.StartDaemon(t, nil)
		if err := d.Stop(syscall.SIGINT); err != nil {
			t.Errorf("exit: %v\n%s", err, d.Log())
		}
	})
	t.Run("SIGHUP reloads", func(t *testing.T) {
		file := writeConfigFile(t, "log_level: info\n")
		d := testkit.StartDaemon(t, nil, "--config", file)
		if err := os.WriteFile(file, []byte("log_level: chatty\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		d.Signal(syscall.SIGHUP)
		testkit.Eventually(t, 20*time.Second, "the bad file is refused", func() bool { return strings.Contains(d.Log(), "old settings stay in force") })
		if err := os.WriteFile(file, []byte("registry:\n  tenants: [later]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		d.Signal(syscall.SIGHUP)
		testkit.Eventually(t, 20*time.Second, "the good file is taken over", func() bool { return strings.Contains(d.Log(), "settings reloaded") })
	})
	t.Run("SIGKILL, then start", func(t *testing.T) {
		d := testkit.StartDaemon(t, nil)
		d.Stop(syscall.SIGKILL)
		if _, err := os.Stat(filepath.Join(d.DataDir, AdminSocketName)); err != nil {
			t.Fatalf("the killed daemon left no socket, so this tests nothing: %v", err)
		}
		d.Start()
		out, err := exec.Command(filepath.Join(testkit.Programs(t), "felix"), "--data-dir", d.DataDir, "stream", "list").CombinedOutput()
		if err != nil {
			t.Errorf("admin interface after the restart: %v %s", err, out)
		}
	})
	t.Run("second signal ends at once", func(t *testing.T) {
		d := testkit.StartDaemon(t, nil, "--profile", "lossless")
		stuck := stuckDrain(t, d)
		defer stuck()
		d.Signal(syscall.SIGTERM)
		testkit.Eventually(t, 20*time.Second, "the drain has begun", func() bool { return strings.Contains(d.Log(), "msg=stopping") })
		begin := time.Now()
		var exit *exec.ExitError
		if err := d.Stop(syscall.SIGTERM); !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("exit: %v, want 1", err)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("the second signal took %v", took)
		}
		if !strings.Contains(d.Log(), ErrAborted.Error()) {
			t.Errorf("the log does not say what was cut short:\n%s", d.Log())
		}
	})
}

// stuckDrain keeps a client busy in a way that holds up a drain: a publisher
// that waits behind a subscriber which does not read. It returns a function
// that ends the client.
func stuckDrain(t *testing.T, d *testkit.Daemon) func() {
	t.Helper()
	felix := filepath.Join(testkit.Programs(t), "felix")
	sub := exec.Command(felix, "--data-dir", d.DataDir, "sub", "stuck")
	out, err := sub.StdoutPipe() // never read
	if err != nil {
		t.Fatal(err)
	}
	pub := exec.Command(felix, "--data-dir", d.DataDir, "pub", "stuck")
	in, err := pub.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.Start(); err != nil {
		t.Fatal(err)
	}
	if err := pub.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		line := []byte(strings.Repeat("x", 64<<10) + "\n")
		for range 10_000 { // more than all windows, queues and pipes hold
			if _, err := in.Write(line); err != nil {
				return // the publisher was killed
			}
		}
	}()
	testkit.Eventually(t, 60*time.Second, "the publisher is held up", func() bool {
		return queuedBytes(t, d) > 32<<20
	})
	return func() {
		for _, cmd := range []*exec.Cmd{pub, sub} {
			cmd.Process.Kill()
			cmd.Wait()
		}
		out.Close()
	}
}

// queuedBytes asks the daemon how much waits for its subscriptions.
func queuedBytes(t *testing.T, d *testkit.Daemon) int64 {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return net.Dial("unix", filepath.Join(d.DataDir, AdminSocketName))
		},
	}}
	code, text := request(t, c, http.MethodGet, "http://felixd/v1/subscriptions", "")
	total := int64(0)
	for _, s := range decode[[]SubscriptionReport](t, code, text) {
		total += s.QueuedBytes
	}
	return total
}

func TestOneLine(t *testing.T) {
	if got := OneLine(fmt.Errorf("a\nb: %w", errors.New("c\n"))); got != "a b: c" {
		t.Errorf("OneLine = %q", got)
	}
}
