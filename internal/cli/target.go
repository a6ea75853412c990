package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"felix/client"
	"felix/daemon"
	"felix/transport"
)

// globalFlags are the flags that every command has. Each has an environment
// variable that is used when the flag is not given.
type globalFlags struct {
	set        *pflag.FlagSet
	addr       string
	ca         string
	serverName string
	token      string
	tokenFile  string
	tenant     string
	namespace  string
	dataDir    string
	json       bool
}

// flagVariables maps a flag to its environment variables, the most specific
// first. The second ones are those of the original's clients.
var flagVariables = map[string][]string{
	"addr":        {"FELIX_ADDR"},
	"ca":          {"FELIX_CA"},
	"server-name": {"FELIX_SERVER_NAME"},
	"token":       {"FELIX_TOKEN", "FELIX_AUTH_TOKEN"},
	"token-file":  {"FELIX_TOKEN_FILE"},
	"tenant":      {"FELIX_TENANT", "FELIX_AUTH_TENANT"},
	"namespace":   {"FELIX_NAMESPACE"},
	"data-dir":    {"FELIX_DATA_DIR"},
	"json":        {"FELIX_JSON"},
}

func (g *globalFlags) register(f *pflag.FlagSet) {
	g.set = f
	f.StringVar(&g.addr, "addr", "", "broker address, host:port (FELIX_ADDR)")
	f.StringVar(&g.ca, "ca", "", "PEM file with the certificate to trust; default: the system's (FELIX_CA)")
	f.StringVar(&g.serverName, "server-name", "", "name in the broker's certificate; default: localhost (FELIX_SERVER_NAME)")
	f.StringVar(&g.token, "token", "", "access token; visible to other users of the host, see --token-file (FELIX_TOKEN)")
	f.StringVar(&g.tokenFile, "token-file", "", "file with the access token (FELIX_TOKEN_FILE)")
	f.StringVar(&g.tenant, "tenant", "", "tenant (FELIX_TENANT)")
	f.StringVar(&g.namespace, "namespace", "", "namespace (FELIX_NAMESPACE)")
	f.StringVar(&g.dataDir, "data-dir", "", "data directory of a broker on this host (FELIX_DATA_DIR)")
	f.BoolVar(&g.json, "json", false, "print JSON (FELIX_JSON=1)")
}

// value is a flag's value, or that of its environment variable.
func (a *app) value(flag string) string {
	if f := a.flags.set.Lookup(flag); f.Changed {
		return f.Value.String()
	}
	for _, name := range flagVariables[flag] {
		if v := a.getenv(name); v != "" {
			return v
		}
	}
	return ""
}

func (a *app) getenv(name string) string {
	for _, kv := range a.io.Environ {
		if k, v, _ := strings.Cut(kv, "="); k == name {
			return v
		}
	}
	return ""
}

// json reports whether output is to be JSON.
func (a *app) json() bool {
	switch strings.ToLower(a.value("json")) {
	case "", "0", "false", "no", "off":
		return false
	}
	return true
}

// dataDir is the data directory of the broker on this host.
func (a *app) dataDir() (string, error) {
	if dir := a.value("data-dir"); dir != "" {
		return filepath.Abs(dir)
	}
	return daemon.DefaultDataDir()
}

// endpoint finds the broker that the same user runs in development mode.
func (a *app) endpoint() (daemon.Endpoint, error) {
	dir, err := a.dataDir()
	if err != nil {
		return daemon.Endpoint{}, err
	}
	e, err := daemon.ReadEndpoint(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return e, hint(fmt.Errorf("no broker found in %s", dir), "start felixd --dev, or name one with --addr, --ca and --token-file")
	}
	return e, err
}

// target is how to reach a broker.
type target struct {
	addr, ca, serverName, tenant, namespace string
	token                                   string // used if not empty
	tokenFile                               string
}

// target merges flags, environment and, unless another broker is named, what
// the development broker of the same user has written down.
func (a *app) target() (target, error) {
	t := target{
		addr: a.value("addr"), ca: a.value("ca"), serverName: a.value("server-name"),
		token: a.value("token"), tokenFile: a.value("token-file"), tenant: a.value("tenant"), namespace: a.value("namespace"),
	}
	e, err := a.endpoint()
	if t.addr == "" {
		if err != nil {
			return t, err
		}
		t.addr = e.Addr
	}
	if err == nil && t.addr == e.Addr {
		fill(&t.ca, e.CAFile)
		fill(&t.tenant, e.Tenant)
		fill(&t.namespace, e.Namespace)
		if t.token == "" {
			fill(&t.tokenFile, e.TokenFile)
		}
	}
	fill(&t.tenant, daemon.DevTenant)
	fill(&t.namespace, client.DefaultNamespace)
	if err := errors.Join(checkText("--tenant", t.tenant), checkText("--namespace", t.namespace)); err != nil {
		return t, err
	}
	if t.token == "" && t.tokenFile == "" {
		return t, hint(errors.New("no access token"), "give --token-file or set FELIX_TOKEN; felix token issue makes one")
	}
	return t, nil
}

func fill(s *string, v string) {
	if *s == "" {
		*s = v
	}
}

// readToken reads the token afresh each time, since a broker may renew the file.
func (t target) readToken(context.Context) (string, error) {
	if t.token != "" {
		return t.token, nil
	}
	text, err := os.ReadFile(t.tokenFile)
	if err != nil {
		return "", fmt.Errorf("access token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("access token: %s is empty", t.tokenFile)
	}
	return token, nil
}

// frameLimitVariable is the environment variable with the largest frame payload.
// Client and broker have it in common, and should have the same value.
const frameLimitVariable = "FELIX_MAX_FRAME_BYTES"

// frameLimit is the value of that variable; 0, the default, if it is not set.
func (a *app) frameLimit() (int, error) {
	text := a.getenv(frameLimitVariable)
	if text == "" {
		return 0, nil
	}
	for _, s := range daemon.Settings() {
		if s.Env != frameLimitVariable {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < s.Min || n > s.Max || text[0] < '1' || text[0] > '9' {
			return 0, fmt.Errorf("%s: is %q, want %d to %d %s", s.Env, text, s.Min, s.Max, s.Unit)
		}
		return int(n), nil
	}
	return 0, nil
}

const (
	// connectTimeout bounds the first contact: a wrong address must not hang.
	connectTimeout = 10 * time.Second
	// closeTimeout bounds the flush at the end.
	closeTimeout = 30 * time.Second
)

// connect reaches the broker that the flags name. change may adjust the
// settings before.
func (a *app) connect(ctx context.Context, change func(*client.Config)) (*client.Client, error) {
	t, err := a.target()
	if err != nil {
		return nil, err
	}
	if _, err := t.readToken(ctx); err != nil {
		return nil, err
	}
	c := client.Config{
		Addr: t.addr, CAFile: t.ca, ServerName: t.serverName,
		Tenant: t.tenant, Namespace: t.namespace, TokenSource: t.readToken,
	}
	if c.MaxFrameBytes, err = a.frameLimit(); err != nil {
		return nil, err
	}
	if change != nil {
		change(&c)
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	cl, err := client.Connect(ctx, c)
	if err != nil {
		return nil, connectError(t, err)
	}
	return cl, nil
}

// connectError says what to do about a failed connection.
func connectError(t target, err error) error {
	op := operation("connect to", t.addr)
	var auth *client.AuthError
	var handshake *transport.HandshakeError
	switch {
	case errors.As(err, &auth):
		return hint(opError(op, err), "check the token and --tenant %s: felix token inspect shows a token", daemon.Quoted(t.tenant))
	case errors.As(err, &handshake):
		return hint(opError(op, err), "check --ca and --server-name")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, transport.ErrHandshakeTimeout), errors.Is(err, transport.ErrIdleTimeout):
		return hint(fmt.Errorf("%s: no answer", op), "is the broker running, and is UDP let through?")
	}
	return opError(op, err)
}

// closeClient flushes and ends the client, also after an interrupt.
func closeClient(c *client.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return opError("close", c.Close(ctx))
}
