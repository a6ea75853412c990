package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"felix/client"
	"felix/internal/testkit"
	"felix/transport"
)

func TestMain(m *testing.M) {
	// Programs built with the race detector sleep for a second at their end.
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	if spec := os.Getenv(childEnv); spec != "" {
		os.Exit(childMain(spec))
	}
	runsText = os.Getenv(runsEnv)
	os.Unsetenv(runsEnv)
	code := m.Run()
	testkit.RemovePrograms()
	os.Exit(code)
}

// endpoint is what felixd --dev leaves for its users.
type endpoint struct {
	Addr      string `json:"addr"`
	CAFile    string `json:"ca_file"`
	TokenFile string `json:"token_file"`
	Tenant    string `json:"tenant"`
	Namespace string `json:"namespace"`
}

func readEndpoint(t *testing.T, d *testkit.Daemon) (e endpoint, token string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(d.DataDir, "endpoint.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	tok, err := os.ReadFile(e.TokenFile)
	if err != nil {
		t.Fatal(err)
	}
	return e, strings.TrimSpace(string(tok))
}

// clientConfig is what a Go user of the development broker needs.
func clientConfig(t *testing.T, d *testkit.Daemon) client.Config {
	t.Helper()
	e, token := readEndpoint(t, d)
	return client.Config{Addr: e.Addr, CAFile: e.CAFile, Tenant: e.Tenant, Namespace: e.Namespace, Token: token}
}

func connect(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	c, err := client.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = c.Close(ctx) // the daemon may be gone on purpose
	})
	return c
}

// dialRaw connects without the client library, for peers that misbehave.
func dialRaw(t *testing.T, d *testkit.Daemon) (*transport.Conn, endpoint, string) {
	t.Helper()
	e, token := readEndpoint(t, d)
	tlsConfig, err := transport.ClientTLS(transport.ClientTLSOptions{CAFile: e.CAFile})
	if err != nil {
		t.Fatal(err)
	}
	dialer, err := transport.NewDialer(transport.Config{TLS: tlsConfig})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialer.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := dialer.Dial(ctx, e.Addr)
	if err != nil {
		t.Fatal(err)
	}
	return conn, e, token
}

// result is what a finished command left.
type result struct {
	stdout, stderr string
	code           int
}

// felix runs the command against the daemon with the given standard input.
func felix(t *testing.T, d *testkit.Daemon, stdin string, args ...string) result {
	t.Helper()
	cmd := felixCommand(t, d, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("felix %v: %v", args, err)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

func felixCommand(t *testing.T, d *testkit.Daemon, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(testkit.Programs(t), "felix"), args...)
	cmd.Env = append(os.Environ(), "FELIX_DATA_DIR="+d.DataDir)
	return cmd
}

// ok fails the test unless the command succeeded, and returns its output.
func (r result) ok(t *testing.T) string {
	t.Helper()
	if r.code != 0 {
		t.Fatalf("exit code %d: %s", r.code, r.stderr)
	}
	return r.stdout
}
