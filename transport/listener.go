package transport

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/quic-go/quic-go"

	"felix/udp"
)

// acceptQueue is the number of established connections that may wait for Accept. quic-go's own queue refuses what does
// not fit, and holds only 32 in the stock engine, so the listener empties it at once into this one.
const acceptQueue = 1024

// connectionIDLength is that of the ids that clients address the listener with, in bytes. Each connection has several;
// quic-go's default of 4 would make collisions likely at some ten thousand connections.
const connectionIDLength = 8

// Listener accepts connections on one UDP socket.
type Listener struct {
	cfg  Config
	tr   *socket
	ln   *quic.Listener
	book *handshakeBook

	queue    chan *Conn
	stopOnce sync.Once
	stopped  chan struct{} // closed by StopAccepting
	failed   chan struct{} // closed when quic-go accepts no more, whatever the reason
	cancel   context.CancelFunc
	work     sync.WaitGroup

	closeOnce sync.Once
	closeErr  error

	conns *connSet
}

// Listen opens a UDP socket on addr ("host:port"; an empty host is every IPv4 and IPv6 address of the machine) and
// accepts connections on it. c.TLS must hold a certificate, see ServerTLS.
func Listen(addr string, c Config) (*Listener, error) {
	network, err := networkOf(addr)
	if err != nil {
		return nil, fmt.Errorf("transport: listen: %w", err)
	}
	sock, err := udp.Listen(network, addr, c.Socket)
	if err != nil {
		return nil, fmt.Errorf("transport: listen: %w", err)
	}
	l, err := NewListener(sock, c)
	if err != nil {
		_ = sock.Close() // the first error counts
		return nil, err
	}
	return l, nil
}

// NewListener accepts connections on a socket that is already open, such as one passed on by a service manager. The
// listener owns the socket from then on; on an error the caller still does.
func NewListener(sock *udp.Conn, c Config) (*Listener, error) {
	c, err := c.withDefaults(listenerWindows)
	if err != nil {
		return nil, err
	}
	l := &Listener{
		cfg:     c,
		queue:   make(chan *Conn, acceptQueue),
		stopped: make(chan struct{}),
		failed:  make(chan struct{}),
		conns:   newConnSet(c.Logger),
	}
	l.book = newHandshakeBook(c, l.isStopped)
	l.tr = newSocket(sock, c)
	l.tr.quic.ConnectionIDLength = connectionIDLength
	l.tr.quic.VerifySourceAddress = func(net.Addr) bool { return l.book.mustProveAddress() }
	l.tr.quic.ConnContext = func(ctx context.Context, info *quic.ClientInfo) (context.Context, error) {
		return l.book.begin(ctx, info.RemoteAddr)
	}
	tlsConf := serverTLS(c.TLS, c.RequireALPN)
	qc := l.tr.quicConfig(nil)
	qc.GetConfigForClient = func(info *quic.ClientInfo) (*quic.Config, error) {
		return l.tr.quicConfig(info.RemoteAddr), nil
	}
	l.ln, err = l.tr.quic.Listen(tlsConf, qc)
	if err != nil {
		_ = l.tr.quic.Close() // nothing was started
		return nil, fmt.Errorf("transport: listen: %w", mapError(err))
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.work.Go(func() { l.pump(ctx) })
	return l, nil
}

// Accept returns the next established connection. It never returns the error of a single handshake. Errors:
// ErrNotAccepting after StopAccepting, ErrEndpointClosed once the listener is closed or its socket has failed, the
// cause of ctx.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	select {
	case <-l.stopped:
		return nil, ErrNotAccepting
	default:
	}
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.stopped:
		return nil, ErrNotAccepting
	case <-l.failed:
		return nil, ErrEndpointClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Addr returns the address of the socket.
func (l *Listener) Addr() net.Addr { return l.tr.sock.LocalAddr() }

// Socket returns the socket, for its counters and capabilities. It must not be read from, written to or closed.
func (l *Listener) Socket() *udp.Conn { return l.tr.sock }

// StopAccepting refuses all connections from now on; established ones that Accept has handed out go on. Clients in
// the middle of a handshake are closed with CodeDraining. It may be called more than once.
func (l *Listener) StopAccepting() {
	l.stopOnce.Do(func() {
		close(l.stopped)
		l.drainQueue()
	})
}

func (l *Listener) isStopped() bool {
	select {
	case <-l.stopped:
		return true
	default:
		return false
	}
}

// drainQueue turns away the connections that nobody has accepted.
func (l *Listener) drainQueue() {
	for {
		select {
		case c := <-l.queue:
			l.turnAway(c, CodeDraining, "not accepting connections")
		default:
			return
		}
	}
}

// Close closes every connection (application code 0, no reason), stops accepting, and closes the socket. It waits
// until all of the listener's goroutines have ended.
func (l *Listener) Close() error {
	l.closeOnce.Do(func() {
		l.StopAccepting()
		l.conns.closeAll()
		l.cancel()
		l.closeErr = l.tr.close()
		l.work.Wait()
	})
	return l.closeErr
}

// pump moves connections from quic-go to the queue until the listener is closed.
func (l *Listener) pump(ctx context.Context) {
	defer close(l.failed)
	for {
		qc, err := l.ln.Accept(ctx)
		if err != nil {
			return // quic-go reports only its own end here, never a handshake
		}
		l.admit(qc)
	}
}

// admit takes over a connection whose handshake has completed.
func (l *Listener) admit(qc *quic.Conn) {
	if !l.book.establish(qc.Context()) {
		return // the peer was quicker to close it
	}
	c := l.tr.newConn(qc)
	n := l.conns.add(c)
	if l.cfg.MaxConns > 0 && n > l.cfg.MaxConns {
		l.book.count(FailLimit)
		l.turnAway(c, CodeLimitExceeded, fmt.Sprintf("connection limit of %d reached", l.cfg.MaxConns))
		return
	}
	if l.isStopped() {
		l.turnAway(c, CodeDraining, "not accepting connections")
		return
	}
	select {
	case l.queue <- c:
		if l.isStopped() { // StopAccepting may have emptied the queue just before
			l.drainQueue()
		}
	default:
		l.book.count(FailLimit)
		l.turnAway(c, CodeLimitExceeded, "too many connections wait to be accepted")
	}
}

// turnAway closes a connection without making the pump wait for it.
func (l *Listener) turnAway(c *Conn, code uint64, reason string) {
	go func() { _ = c.CloseWithError(code, reason) }() // ends with the connection, at the latest in Close
}
