package session

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"felix/broker"
	"felix/broker/auth"
	"felix/wire"
)

// Authenticator checks the token of an auth message. *auth.Verifier is one. It
// is called from many goroutines at once.
type Authenticator interface {
	Authenticate(tenant, token string) (*auth.Grants, error)
}

// Server speaks the protocol on any number of connections over one broker.
type Server struct {
	cfg       Config
	broker    *broker.Broker
	auth      Authenticator
	count     counters
	readStage *broker.WakeupHistogram
	frames    *memory   // of large frames
	replies   *memory   // of large replies
	buffers   sync.Pool // *[]byte of cfg.MaxBytesPerWrite, for event writers

	mu       sync.Mutex
	draining bool
	drained  chan struct{} // closed when Drain is done; made by it
	nextID   uint64
	conns    map[uint64]*connection
}

// New returns a server of b's streams and caches.
func New(cfg Config, b *broker.Broker, a Authenticator) *Server {
	s := &Server{
		cfg: cfg.withDefaults(), broker: b, auth: a,
		readStage: b.Stage("read", "Frames that the reader of a client's stream handled between two waits for bytes."),
		conns:     make(map[uint64]*connection),
	}
	o := b.Options()
	orDefault(&s.cfg.FrameBytes, o.InflightBytes)
	orDefault(&s.cfg.ConnFrameBytes, o.ConnInflightBytes)
	s.frames, s.replies = newMemory(s.cfg.FrameBytes), newMemory(math.MaxInt64)
	size := s.cfg.MaxBytesPerWrite
	s.buffers.New = func() any {
		b := make([]byte, 0, size)
		return &b
	}
	return s
}

// Serve serves one connection and returns when it has ended and everything that
// was started for it has, too. When ctx ends first, the connection is closed at
// once. The error says why the connection ended; it is nil after a drain or
// when ctx ended, and ErrDraining for a connection that came too late.
func (s *Server) Serve(ctx context.Context, c Conn) error {
	conn := s.admit(c)
	if conn == nil {
		s.count.add(ConnectionsRefused, 1)
		shutDown(c)
		return ErrDraining
	}
	defer s.forget(conn)
	stop := context.AfterFunc(ctx, func() { shutDown(c) })
	defer stop()
	err := conn.serve()
	if ctx.Err() != nil || s.isDraining() {
		return nil
	}
	return err
}

// shutDown closes a connection the way a drain does. Closing one that has ended
// is no failure.
func shutDown(c Conn) { _ = c.CloseWithError(wire.ShutdownCode, wire.ShutdownReason) }

// admit registers a connection, unless the server drains.
func (s *Server) admit(c Conn) *connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return nil
	}
	s.count.add(ConnectionsServed, 1)
	s.nextID++
	conn := newConnection(s, c, s.nextID)
	s.conns[conn.id] = conn
	return conn
}

func (s *Server) forget(conn *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn.id)
}

func (s *Server) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// connections returns those being served.
func (s *Server) connections() []*connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*connection, 0, len(s.conns))
	for _, c := range s.conns {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *connection) int { return cmp.Compare(a.id, b.id) })
	return out
}

// Stats returns a snapshot of the server.
func (s *Server) Stats() Stats {
	now := time.Now()
	st := Stats{Counts: s.count.snapshot(), Draining: s.isDraining()}
	for _, c := range s.connections() {
		st.Connections = append(st.Connections, c.stats(now))
	}
	return st
}
