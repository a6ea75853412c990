package transport

import (
	"errors"
	"fmt"
	"net"
)

// Application error codes that this package itself closes connections with. The numbers are those of the protocol's
// error codes of the same name.
const (
	// CodeLimitExceeded: the listener has as many connections as it may have.
	CodeLimitExceeded uint64 = 11
	// CodeDraining: the listener has stopped accepting while the handshake was in progress.
	CodeDraining uint64 = 12
	// CodePathUnusable: packets of the size in use no longer reach the peer; a new connection starts small again.
	CodePathUnusable uint64 = 16
)

// Sentinel errors. Those that mean a closed connection, stream or endpoint also match net.ErrClosed.
var (
	// ErrIdleTimeout: nothing was received from the peer for the idle timeout.
	ErrIdleTimeout error = &closedError{text: "idle timeout: nothing received from the peer", timeout: true}
	// ErrStatelessReset: the peer does not know the connection; it has been restarted.
	ErrStatelessReset error = &closedError{text: "stateless reset: the peer has lost the connection (restarted)"}
	// ErrHandshakeTimeout: the peer did not answer, or did not finish the handshake in time.
	ErrHandshakeTimeout error = &closedError{text: "handshake timeout: no answer from the peer", timeout: true}
	// ErrRefused: the server refused the connection before any handshake (limit, drain).
	ErrRefused error = &closedError{text: "connection refused by the server"}
	// ErrEndpointClosed: the Listener or Dialer was closed.
	ErrEndpointClosed error = &closedError{text: "endpoint closed"}
	// ErrNotAccepting: StopAccepting was called.
	ErrNotAccepting error = &closedError{text: "listener has stopped accepting"}
	// ErrStreamClosed: write after CloseWrite.
	ErrStreamClosed error = &closedError{text: "stream closed for writing"}
	// ErrPacketTooBig: the host refuses even the smallest QUIC packets on this path.
	ErrPacketTooBig = errors.New("path MTU is too small for QUIC (it needs UDP payloads of 1200 bytes)")
)

type closedError struct {
	text    string
	timeout bool
}

func (e *closedError) Error() string   { return e.text }
func (e *closedError) Unwrap() error   { return net.ErrClosed }
func (e *closedError) Timeout() bool   { return e.timeout }
func (e *closedError) Temporary() bool { return false }

// ApplicationError ends a connection that one of the two applications closed. It matches net.ErrClosed.
type ApplicationError struct {
	Code   uint64
	Reason string
	Remote bool // the peer closed
}

func (e *ApplicationError) Error() string {
	return fmt.Sprintf("connection closed by %s: code %d: %s", side(e.Remote), e.Code, e.Reason)
}

// Unwrap makes the error match net.ErrClosed.
func (e *ApplicationError) Unwrap() error { return net.ErrClosed }

// StreamError ends one direction of a stream that one of the two applications gave up. Seen by Read it is the other
// side's CancelWrite, seen by Write the other side's CancelRead (STOP_SENDING), or the own one if Remote is false.
type StreamError struct {
	Code   uint64
	Remote bool
}

func (e *StreamError) Error() string {
	return fmt.Sprintf("stream cancelled by %s: code %d", side(e.Remote), e.Code)
}

// HandshakeError is a failed TLS handshake.
type HandshakeError struct {
	Kind   HandshakeFailure
	Alert  uint8 // TLS alert number (RFC 8446, 6), 0 if unknown
	Remote bool  // the peer refused us; else we refused the peer
	Err    error // may be nil
}

func (e *HandshakeError) Error() string {
	s := fmt.Sprintf("TLS handshake refused by %s: %s (alert %d)", side(e.Remote), e.Kind, e.Alert)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap makes the error match net.ErrClosed and what the TLS library said.
func (e *HandshakeError) Unwrap() []error { return []error{net.ErrClosed, e.Err} }

// ProtocolError is a violation of QUIC itself, by the peer or by us. It matches net.ErrClosed.
type ProtocolError struct {
	Code   uint64 // RFC 9000, 20.1
	Reason string
	Remote bool // reported by the peer
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("QUIC error reported by %s: code %#x: %s", side(e.Remote), e.Code, e.Reason)
}

// Unwrap makes the error match net.ErrClosed.
func (e *ProtocolError) Unwrap() error { return net.ErrClosed }

func side(remote bool) string {
	if remote {
		return "the peer"
	}
	return "this end"
}
