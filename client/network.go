package client

import (
	"context"
	"io"
	"sync"
	"time"

	"felix/transport"
)

// conn is what the client uses of a QUIC connection. It is an interface so that tests can do without a network.
type conn interface {
	OpenStream(ctx context.Context) (stream, error)
	OpenUniStream(ctx context.Context) (sendStream, error)
	AcceptUniStream(ctx context.Context) (recvStream, error)
	CloseWithError(code uint64, reason string) error
	// Context is cancelled when the connection has ended, with the reason as its cause.
	Context() context.Context
}

// recvStream is the receiving side of a QUIC stream.
type recvStream interface {
	io.Reader
	SetReadDeadline(t time.Time) error
	CancelRead(code uint64)
}

// sendStream is the sending side of a QUIC stream.
type sendStream interface {
	io.Writer
	SetWriteDeadline(t time.Time) error
	CloseWrite() error
	CancelWrite(code uint64)
}

// stream is a bidirectional QUIC stream.
type stream interface {
	recvStream
	sendStream
}

// dialFunc makes a connection to the broker.
type dialFunc func(ctx context.Context) (conn, error)

// quicConn is a connection with a socket of its own, so that connections share no read loop and a socket that has
// become useless goes away with the connection.
type quicConn struct {
	*transport.Conn
	dialer *transport.Dialer
	once   sync.Once
}

// dialQUIC returns a dialFunc for the broker in cfg. A CA file is read at each dial, so that a replaced one counts.
func dialQUIC(cfg Config) dialFunc {
	return func(ctx context.Context) (conn, error) {
		tlsConfig, err := transport.ClientTLS(transport.ClientTLSOptions{
			RootCAs: cfg.RootCAs, CAFile: cfg.CAFile, ServerName: cfg.ServerName, OfferALPN: cfg.OfferALPN,
		})
		if err != nil {
			return nil, err
		}
		tc := cfg.Transport
		tc.TLS = tlsConfig
		if tc.Logger == nil {
			tc.Logger = cfg.Logger
		}
		dialer, err := transport.NewDialer(tc)
		if err != nil {
			return nil, err
		}
		c, err := dialer.Dial(ctx, cfg.Addr)
		if err != nil {
			_ = dialer.Close() // nothing was opened that could fail to close
			return nil, err
		}
		q := &quicConn{Conn: c, dialer: dialer}
		context.AfterFunc(c.Context(), q.release)
		return q, nil
	}
}

// release closes the socket. The connection has ended, so an error cannot matter any more.
func (q *quicConn) release() { q.once.Do(func() { _ = q.dialer.Close() }) }

// CloseWithError ends the connection and its socket.
func (q *quicConn) CloseWithError(code uint64, reason string) error {
	err := q.Conn.CloseWithError(code, reason)
	q.release()
	return err
}

// OpenStream opens a bidirectional stream.
func (q *quicConn) OpenStream(ctx context.Context) (stream, error) {
	s, err := q.Conn.OpenStream(ctx)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// OpenUniStream opens a unidirectional stream.
func (q *quicConn) OpenUniStream(ctx context.Context) (sendStream, error) {
	s, err := q.Conn.OpenUniStream(ctx)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// AcceptUniStream returns the next stream that the broker has opened.
func (q *quicConn) AcceptUniStream(ctx context.Context) (recvStream, error) {
	s, err := q.Conn.AcceptUniStream(ctx)
	if err != nil {
		return nil, err
	}
	return s, nil
}
