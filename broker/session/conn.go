package session

import (
	"context"
	"io"
	"net"
	"time"
)

// Conn is one established connection. Its methods may be called concurrently.
// When the connection ends, all pending and later calls on it and its streams
// return an error.
type Conn interface {
	// AcceptStream returns the next bidirectional stream the client opened.
	AcceptStream(ctx context.Context) (Stream, error)
	// AcceptUniStream returns the next unidirectional stream the client opened.
	AcceptUniStream(ctx context.Context) (ReceiveStream, error)
	// OpenUniStream opens a unidirectional stream, and blocks until the client
	// allows one more.
	OpenUniStream(ctx context.Context) (SendStream, error)
	// CloseWithError ends the connection at once. Bytes that the client has not
	// received yet are lost.
	CloseWithError(code uint64, reason string) error
	// Context ends with the connection.
	Context() context.Context
	// RemoteAddr is the client's address. Several connections may share it.
	RemoteAddr() net.Addr
	// ID tells the connection from all others of the process.
	ID() uint64
}

// ReceiveStream is the half of a QUIC stream that is read.
type ReceiveStream interface {
	// Read returns io.EOF after everything before the client's FIN.
	io.Reader
	// CancelRead gives up reading and asks the client to stop sending
	// (STOP_SENDING). Without effect once the stream has ended.
	CancelRead(code uint64)
	// SetReadDeadline makes pending and later reads fail with an error that
	// wraps os.ErrDeadlineExceeded after t; the zero time means never. It may be
	// called while another goroutine reads.
	SetReadDeadline(t time.Time) error
}

// SendStream is the half of a QUIC stream that is written. It is written by
// one goroutine at a time.
type SendStream interface {
	// Write returns once p has been taken over and may be reused. It blocks
	// while the client's flow-control windows are full.
	io.Writer
	// CloseWrite sends FIN after everything written.
	CloseWrite() error
	// CancelWrite gives up writing (RESET_STREAM) and unblocks a pending Write.
	// Bytes that the client has not received yet may be lost.
	CancelWrite(code uint64)
	// SetWriteDeadline is like SetReadDeadline.
	SetWriteDeadline(t time.Time) error
	// Context ends when nothing can be written any more: after CloseWrite or
	// CancelWrite, when the client stopped the stream (STOP_SENDING), or with the
	// connection.
	Context() context.Context
}

// Stream is a bidirectional QUIC stream.
type Stream interface {
	ReceiveStream
	SendStream
}
