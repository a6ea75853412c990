package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"
	"time"

	"felix/broker"
)

// maxSocketPath is the longest path every supported system takes for a unix
// socket (macOS: 104 bytes with the terminating zero; Linux: 108).
const maxSocketPath = 103

// startAdmin opens the admin interface: HTTP on a unix socket that only the
// user who runs the broker can open.
func (d *Daemon) startAdmin(ctx context.Context) error {
	if d.cfg.AdminSocket == off {
		return nil
	}
	path := d.cfg.AdminSocket
	if path == "" {
		path = filepath.Join(d.dataDir, AdminSocketName)
	}
	ln, err := listenUnix(ctx, path)
	if err != nil {
		return &StartError{Step: "admin socket " + path, Err: cause(err), Hint: "set admin_socket to another path, or to off"}
	}
	d.adminPath = path
	d.onStop("admin interface", serveHTTP(ln, d.adminHandler(), adminHeaderBytes, d.log).stop)
	return nil
}

// listenUnix listens on path with mode 0600. A socket that a killed broker
// left behind is replaced; anything else in its place is an error.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("the path has %d bytes, a unix socket's may have %d", len(path), maxSocketPath)
	}
	if err := removeStaleSocket(ctx, path); err != nil {
		return nil, err
	}
	var ln net.Listener
	var err error
	withPrivateUmask(func() {
		var lc net.ListenConfig
		ln, err = lc.Listen(ctx, "unix", path)
	})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}

func removeStaleSocket(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return errors.New("something that is no socket is in its place")
	}
	var dialer net.Dialer
	if conn, err := dialer.DialContext(ctx, "unix", path); err == nil {
		return errors.Join(errors.New("another process answers on it"), conn.Close())
	}
	return os.Remove(path)
}

// adminHandler serves docs/admin.md.
func (d *Daemon) adminHandler() http.Handler {
	mux := http.NewServeMux()
	for pattern, get := range map[string]func(*http.Request) (any, error){
		"GET /v1/status":        func(*http.Request) (any, error) { return d.status(), nil },
		"GET /v1/streams":       func(*http.Request) (any, error) { return d.streamReports(), nil },
		"POST /v1/streams":      d.createStream,
		"DELETE /v1/streams":    d.deleteStream,
		"GET /v1/caches":        func(*http.Request) (any, error) { return d.cacheReports(), nil },
		"POST /v1/caches":       d.createCache,
		"DELETE /v1/caches":     d.deleteCache,
		"GET /v1/connections":   func(*http.Request) (any, error) { return d.connectionReports(), nil },
		"GET /v1/subscriptions": func(*http.Request) (any, error) { return d.subscriptionReports(), nil },
		"GET /v1/ledger":        func(*http.Request) (any, error) { return d.ledgerReports(), nil },
		"GET /v1/probes":        d.probesReport,
		"POST /v1/probes":       d.setProbes,
		"POST /v1/reload":       func(*http.Request) (any, error) { return struct{}{}, d.Reload() },
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { answer(w, r, get) })
	}
	mux.Handle("GET /v1/metrics", d.metricsHandler())
	mux.HandleFunc("GET /v1/config", d.writeConfig)
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return withJSONErrors(mux)
}

// httpError is an error with the status code it is answered with.
type httpError struct {
	code int
	err  error
}

func (e *httpError) Error() string { return e.err.Error() }
func (e *httpError) Unwrap() error { return e.err }

func badRequest(format string, args ...any) error {
	return &httpError{http.StatusBadRequest, fmt.Errorf(format, args...)}
}

// target is the body of requests that name a cache, and a part of those that
// name a stream.
type target struct {
	Tenant    string `json:"tenant"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// streamTarget is the body of a request that makes a stream.
type streamTarget struct {
	target
	RingEntries int   `json:"ring_entries"`
	RingBytes   int64 `json:"ring_bytes"`
}

func (t target) key() broker.Key {
	return broker.Key{Tenant: t.Tenant, Namespace: t.Namespace, Name: t.Name}
}

func (t target) check() error {
	if t.Tenant == "" || t.Namespace == "" || t.Name == "" {
		return badRequest("tenant, namespace and name are required")
	}
	return nil
}

func queryTarget(r *http.Request) (target, error) {
	q, err := readQuery(r, "tenant", "namespace", "name")
	if err != nil {
		return target{}, err
	}
	t := target{Tenant: q["tenant"], Namespace: q["namespace"], Name: q["name"]}
	return t, t.check()
}

func (d *Daemon) createStream(r *http.Request) (any, error) {
	var t streamTarget
	if err := readBody(r, &t); err != nil {
		return nil, err
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	if t.RingEntries < 0 || t.RingBytes < 0 {
		return nil, badRequest("negative ring limit")
	}
	if d.broker.HasStream(t.key()) {
		return Created{Created: false}, nil
	}
	err := d.broker.CreateStream(t.key(), broker.StreamOptions{RingEntries: t.RingEntries, RingBytes: t.RingBytes})
	return Created{Created: true}, createError(err)
}

func (d *Daemon) createCache(r *http.Request) (any, error) {
	var t target
	if err := readBody(r, &t); err != nil {
		return nil, err
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	if d.broker.HasCache(t.key()) {
		return Created{Created: false}, nil
	}
	return Created{Created: true}, createError(d.broker.CreateCache(t.key()))
}

// createError picks the status code of a refused creation.
func createError(err error) error {
	var name *broker.InvalidNameError
	var limit *broker.LimitError
	switch {
	case errors.As(err, &name):
		return &httpError{http.StatusBadRequest, err}
	case errors.As(err, &limit):
		return &httpError{http.StatusConflict, err}
	case errors.Is(err, broker.ErrClosed):
		return &httpError{http.StatusServiceUnavailable, err}
	}
	return err
}

func (d *Daemon) deleteStream(r *http.Request) (any, error) {
	t, err := queryTarget(r)
	if err == nil && !d.broker.DeleteStream(t.key()) {
		err = &httpError{http.StatusNotFound, &broker.NotFoundError{Key: t.key()}}
	}
	return struct{}{}, err
}

func (d *Daemon) deleteCache(r *http.Request) (any, error) {
	t, err := queryTarget(r)
	if err == nil && !d.broker.DeleteCache(t.key()) {
		err = &httpError{http.StatusNotFound, &broker.NotFoundError{Cache: true, Key: t.key()}}
	}
	return struct{}{}, err
}

// writeConfig answers with the settings in force, as --print-config would.
func (d *Daemon) writeConfig(w http.ResponseWriter, _ *http.Request) {
	l := Loaded{Config: d.Config()}
	w.Header().Set("Content-Type", "application/yaml")
	if err := l.WriteConfig(w); err != nil {
		d.log.Debug("admin interface: cannot send the settings", logError, err)
	}
}

// uptime is the time since the start of the broker.
func (d *Daemon) uptime() time.Duration { return time.Since(d.started) }
