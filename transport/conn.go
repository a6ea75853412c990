package transport

import (
	"context"
	"net"
	"sync/atomic"
	"unicode/utf8"

	"github.com/quic-go/quic-go"
)

var lastConnID atomic.Uint64

// Conn is an established QUIC connection.
type Conn struct {
	qc     *quic.Conn
	id     uint64
	ctx    context.Context
	cancel context.CancelCauseFunc
	size   packetSize
	path   pathState // belongs to the endpoint's connSet
}

// newConn wraps a connection of this socket.
func (t *socket) newConn(qc *quic.Conn) *Conn {
	c := &Conn{qc: qc, id: lastConnID.Add(1), size: t.packetsFor(qc.RemoteAddr())}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	context.AfterFunc(qc.Context(), func() {
		t.budget.release(attemptOf(qc.Context()))
		c.cancel(mapError(context.Cause(qc.Context())))
	})
	return c
}

// AcceptStream returns the next bidirectional stream of the peer. It blocks until there is one, ctx is done, or the
// connection has ended.
func (c *Conn) AcceptStream(ctx context.Context) (*Stream, error) {
	s, err := c.qc.AcceptStream(ctx)
	if err != nil {
		return nil, mapError(err)
	}
	return &Stream{s}, nil
}

// AcceptUniStream is AcceptStream for unidirectional streams.
func (c *Conn) AcceptUniStream(ctx context.Context) (*ReceiveStream, error) {
	s, err := c.qc.AcceptUniStream(ctx)
	if err != nil {
		return nil, mapError(err)
	}
	return &ReceiveStream{s}, nil
}

// OpenStream opens a bidirectional stream. It blocks while the peer's stream limit is reached. The peer learns of the
// stream with the first bytes written.
func (c *Conn) OpenStream(ctx context.Context) (*Stream, error) {
	s, err := c.qc.OpenStreamSync(ctx)
	if err != nil {
		return nil, mapError(err)
	}
	return &Stream{s}, nil
}

// OpenUniStream is OpenStream for unidirectional streams.
func (c *Conn) OpenUniStream(ctx context.Context) (*SendStream, error) {
	s, err := c.qc.OpenUniStreamSync(ctx)
	if err != nil {
		return nil, mapError(err)
	}
	return &SendStream{s}, nil
}

// maxReason bounds the reason of a close, in bytes: it has to fit the smallest packet, or nothing is sent at all.
const maxReason = 1000

// CloseWithError closes the connection and tells the peer why. Codes go up to 2^62-1; a reason of more than 1000 bytes
// is cut at a character. Bytes that streams still hold are discarded. It returns when the connection has ended; only
// the first close of either side has an effect. The error is always nil.
func (c *Conn) CloseWithError(code uint64, reason string) error {
	if n := maxReason; len(reason) > n {
		for !utf8.RuneStart(reason[n]) {
			n--
		}
		reason = reason[:n]
	}
	err := c.qc.CloseWithError(quic.ApplicationErrorCode(min(code, maxCode)), reason)
	<-c.ctx.Done()
	return err
}

// Context is cancelled when the connection has ended, with the reason as its cause (see Err).
func (c *Conn) Context() context.Context { return c.ctx }

// Err returns why the connection has ended, or nil while it has not: *ApplicationError, ErrIdleTimeout,
// ErrStatelessReset, *ProtocolError or ErrEndpointClosed.
func (c *Conn) Err() error {
	if c.ctx.Err() == nil {
		return nil
	}
	return context.Cause(c.ctx)
}

// LocalAddr returns the address of this end.
func (c *Conn) LocalAddr() net.Addr { return c.qc.LocalAddr() }

// RemoteAddr returns the present address of the peer; a client may change its address while connected.
func (c *Conn) RemoteAddr() net.Addr { return c.qc.RemoteAddr() }

// ID returns a number that no other connection of this process has.
func (c *Conn) ID() uint64 { return c.id }

// NegotiatedProtocol returns the application protocol, "" if the client offered none.
func (c *Conn) NegotiatedProtocol() string { return c.qc.ConnectionState().TLS.NegotiatedProtocol }
