package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"felix/bpf"
	"felix/broker"
	"felix/broker/session"
	"felix/transport"
)

// Options are what a Daemon needs beside its settings.
type Options struct {
	Config Config
	// Log receives everything the daemon has to say. Nil: nothing is logged.
	Log *slog.Logger
	// Level is the level of Log, so that a reload can change it. Nil: it cannot.
	Level *slog.LevelVar
	// Announce receives, in development mode, the three lines a client needs.
	// Nil: they are not printed.
	Announce io.Writer
	// Reload reads the settings again, for Daemon.Reload. Nil: a reload reads
	// only the files that the settings name.
	Reload func() (Config, error)
}

// A Daemon is a running broker. Its methods may be called concurrently.
type Daemon struct {
	cfg     Config
	opts    Options
	log     *slog.Logger
	started time.Time

	dataDir   string
	adminPath string // empty: no admin interface
	identity  *transport.Identity
	keys      *keyring
	broker    *broker.Broker
	server    *session.Server
	probes    *bpf.Probes
	listener  *transport.Listener
	registry  *prometheus.Registry
	metrics   *httpServer // nil: off
	endpoint  Endpoint    // development mode
	ready     readiness

	background context.Context // ends when the daemon stops
	cancel     context.CancelFunc
	work       sync.WaitGroup // background goroutines and connections
	failed     chan error     // the first failure of a part that must not fail

	connsMu sync.Mutex
	conns   map[uint64]*transport.Conn // being served, by ID

	reloadMu sync.Mutex
	reloaded Config // the settings in force, guarded by reloadMu

	stopOnce sync.Once
	stopErr  error
	stops    []stopStep // in the order of the start
}

// A stopStep undoes one step of the start.
type stopStep struct {
	name string
	stop func(context.Context) error
}

func (d *Daemon) onStop(name string, stop func(context.Context) error) {
	d.stops = append(d.stops, stopStep{name, stop})
}

// Start builds and starts a broker. When it returns without an error the
// broker is bound and serving; Stop must be called in the end. On an error
// everything that was started has been stopped again. ctx bounds the start
// only.
func Start(ctx context.Context, o Options) (*Daemon, error) {
	if err := o.Config.Validate(); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	d := &Daemon{
		cfg: o.Config, reloaded: o.Config, opts: o, log: o.Log, started: time.Now(),
		failed: make(chan error, 1), conns: make(map[uint64]*transport.Conn),
	}
	d.background, d.cancel = context.WithCancel(context.Background())
	for _, step := range []func(context.Context) error{
		d.openDataDir, d.startRuntime, d.startMetrics, d.startCore, d.startProbes, d.startAdmin, d.startListener, d.finishStart,
	} {
		err := ctx.Err()
		if err == nil {
			err = step(ctx)
		}
		if err != nil {
			return nil, errors.Join(err, d.unwind(context.Background()))
		}
	}
	return d, nil
}

func (d *Daemon) openDataDir(context.Context) error {
	dir := d.cfg.DataDir
	if dir == "" {
		var err error
		if dir, err = DefaultDataDir(); err != nil {
			return &StartError{Step: "data directory", Err: err}
		}
	}
	dir, err := filepath.Abs(dir) // clients read the paths below it from other directories
	if err != nil {
		return &StartError{Step: "data directory " + dir, Err: err}
	}
	release, err := openDataDir(dir)
	if err != nil {
		return &StartError{Step: "data directory " + dir, Err: err, Hint: dataDirHint(err)}
	}
	d.dataDir = dir
	d.onStop("data directory", func(context.Context) error { return release() })
	return nil
}

func dataDirHint(err error) string {
	if errors.Is(err, ErrDataDirInUse) {
		return "stop that one or choose another directory with --data-dir"
	}
	return permissionHint(err)
}

// startRuntime sets the width of the Go runtime.
func (d *Daemon) startRuntime(context.Context) error {
	if d.cfg.WorkerThreads == 0 {
		return nil
	}
	before := runtime.GOMAXPROCS(d.cfg.WorkerThreads)
	d.onStop("runtime width", func(context.Context) error { runtime.GOMAXPROCS(before); return nil })
	return nil
}

// startCore builds everything that needs no socket.
func (d *Daemon) startCore(context.Context) error {
	var err error
	if d.identity, err = loadIdentity(&d.cfg, d.dataDir, d.log); err != nil {
		return err
	}
	if d.keys, err = loadKeyring(&d.cfg, d.dataDir); err != nil {
		return err
	}
	o, err := d.cfg.brokerOptions()
	if err != nil {
		return err
	}
	s, err := d.cfg.sessionConfig()
	if err != nil {
		return err
	}
	d.broker = broker.New(o)
	d.broker.RecordWakeups(!d.cfg.DisableTimings)
	d.onStop("broker core", d.broker.Close)
	d.onStop("background work", func(context.Context) error { d.stopBackground(); return nil })
	if d.cfg.Dev {
		if err := d.broker.CreateNamespace(DevTenant, DevNamespace); err != nil {
			return &StartError{Step: "registry", Err: err}
		}
	}
	if err := register(d.broker, d.cfg.Registry); err != nil {
		return &StartError{Step: "registry", Err: err}
	}
	d.server = session.New(s, d.broker, d.keys.verifier)
	return nil
}

// startListener binds the UDP port and begins to accept.
func (d *Daemon) startListener(context.Context) error {
	t, err := d.cfg.transportConfig(d.log)
	if err != nil {
		return err
	}
	t.TLS = transport.ServerTLS(d.identity)
	t.StatelessResetKey = d.identity.ResetKey()
	if d.listener, err = transport.Listen(d.cfg.QUICBind, t); err != nil {
		return listenError("listen on UDP", d.cfg.QUICBind, err)
	}
	d.logSocket()
	if err := d.watchSocket(); err != nil {
		d.log.Warn("probes cannot watch the socket", logError, err)
	}
	if err := d.registry.Register(metricsSource{d}); err != nil {
		return &StartError{Step: "metrics", Err: err}
	}
	d.onStop("listener", func(context.Context) error { return d.listener.Close() })
	d.onStop("connections", d.drain)
	d.work.Go(d.accept)
	return nil
}

// finishStart tells the world that the broker serves.
func (d *Daemon) finishStart(context.Context) error {
	if d.cfg.Dev {
		if err := d.publishEndpoint(); err != nil {
			return err
		}
		d.work.Go(func() { d.renewDevToken(d.background) })
	}
	if d.cfg.ConnStatsMS > 0 {
		d.work.Go(func() { d.logConnections(d.background) })
	}
	d.ready.set(phaseReady)
	engine := transport.Engine()
	d.log.Info("ready", logAddr, d.Addr(), logVersion, Build().Version, "engine", engine.Name,
		"packet_ceiling_bytes", engine.PacketCeiling, "data_dir", d.dataDir, "dev", d.cfg.Dev)
	if d.cfg.Dev && d.opts.Announce != nil {
		d.announce(d.opts.Announce)
	}
	return nil
}

// Addr is the UDP address the broker is bound to.
func (d *Daemon) Addr() string { return d.listener.Addr().String() }

// MetricsAddr is the TCP address of the HTTP interface; empty if it is off.
func (d *Daemon) MetricsAddr() string {
	if d.metrics == nil {
		return ""
	}
	return d.metrics.ln.Addr().String()
}

// AdminSocket is the path of the admin interface; empty if it is off.
func (d *Daemon) AdminSocket() string { return d.adminPath }

// DataDir is the data directory in use.
func (d *Daemon) DataDir() string { return d.dataDir }

// Identity is what clients check the broker by.
func (d *Daemon) Identity() *transport.Identity { return d.identity }

// Broker is the broker core, for programs that run one in their own process.
func (d *Daemon) Broker() *broker.Broker { return d.broker }

// Metrics is what /metrics serves.
func (d *Daemon) Metrics() prometheus.Gatherer { return d.registry }

// Failed delivers an error when a part that must not fail has failed; the
// caller should Stop then.
func (d *Daemon) Failed() <-chan error { return d.failed }

func (d *Daemon) fail(err error) {
	select {
	case d.failed <- err:
	default: // one reason to stop is enough
	}
}

// accept serves connections until the listener accepts no more.
func (d *Daemon) accept() {
	for {
		conn, err := d.listener.Accept(d.background)
		switch {
		case err == nil:
			d.work.Go(func() { d.serve(conn) })
		case errors.Is(err, transport.ErrNotAccepting), d.background.Err() != nil:
			return
		default:
			if d.ready.phase.Load() != int32(phaseDraining) {
				d.fail(err)
			}
			return
		}
	}
}

// serve runs one connection to its end.
func (d *Daemon) serve(conn *transport.Conn) {
	d.connsMu.Lock()
	d.conns[conn.ID()] = conn
	d.connsMu.Unlock()
	defer func() {
		d.connsMu.Lock()
		delete(d.conns, conn.ID())
		d.connsMu.Unlock()
	}()
	err := d.server.Serve(d.background, quicConn{conn})
	if err != nil && !errors.Is(err, net.ErrClosed) {
		d.log.Debug("connection ended", logConn, conn.ID(), logRemote, conn.RemoteAddr().String(), logError, err)
	}
}
