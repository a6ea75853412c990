package transport

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// HandshakeFailure is the kind of a handshake that did not lead to a connection.
type HandshakeFailure uint8

// The kinds of failed handshakes.
const (
	FailOther       HandshakeFailure = iota // anything else
	FailALPN                                // no common application protocol
	FailCertificate                         // the client does not accept the server's certificate
	FailTLS                                 // any other TLS alert
	FailTimeout                             // the peer vanished in the middle
	FailAborted                             // the peer closed the connection in the middle
	FailProtocol                            // violation of QUIC
	FailLimit                               // refused: too many connections, handshakes, or waiting for Accept
	FailDraining                            // refused: the listener has stopped accepting
	numHandshakeFailures
)

var handshakeFailureNames = [numHandshakeFailures]string{
	"other", "alpn", "certificate", "tls", "timeout", "aborted", "protocol", "limit", "draining",
}

// String returns the name of the kind in lower case, fit for a metric label.
func (f HandshakeFailure) String() string {
	if f < numHandshakeFailures {
		return handshakeFailureNames[f]
	}
	return "other"
}

// HandshakeFailures yields every kind, in order.
func HandshakeFailures() []HandshakeFailure {
	all := make([]HandshakeFailure, numHandshakeFailures)
	for i := range all {
		all[i] = HandshakeFailure(i)
	}
	return all
}

// handshakeBook follows the connection attempts of a listener from the first packet to the end of the connection.
type handshakeBook struct {
	cfg         Config
	stopped     func() bool // the listener has stopped accepting
	handshaking atomic.Int64
	accepted    atomic.Uint64
	proofs      atomic.Uint64
	failures    [numHandshakeFailures]atomic.Uint64
	lines       [numHandshakeFailures]lineLimiter
}

func newHandshakeBook(c Config, stopped func() bool) *handshakeBook {
	return &handshakeBook{cfg: c, stopped: stopped}
}

// attempt is what the book knows of one connection. It travels in the context of the connection.
type attempt struct {
	state atomic.Uint32 // attemptOpen, then one of the others
	extra atomic.Int64  // bytes of the receive budget in use
}

const (
	attemptOpen uint32 = iota
	attemptEstablished
	attemptFailed
)

type attemptKey struct{}

func attemptOf(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt) // nil for contexts that are not ours
	return a
}

var (
	errTooManyHandshakes = errors.New("too many handshakes in progress")
	errListenerStopped   = errors.New("listener has stopped accepting")
)

// begin is called by quic-go for the first packet of an attempt, before any cryptography. An error refuses it.
func (b *handshakeBook) begin(ctx context.Context, remote net.Addr) (context.Context, error) {
	if b.stopped() {
		b.fail(FailDraining, remote, errListenerStopped)
		return nil, errListenerStopped
	}
	if limit := b.cfg.MaxHandshakes; limit > 0 && b.handshaking.Load() >= int64(limit) {
		b.fail(FailLimit, remote, errTooManyHandshakes)
		return nil, errTooManyHandshakes
	}
	b.handshaking.Add(1)
	a := new(attempt)
	ctx = context.WithValue(ctx, attemptKey{}, a)
	context.AfterFunc(ctx, func() { b.end(a, remote, context.Cause(ctx)) })
	return ctx, nil
}

// establish notes that the handshake of a connection has completed, unless the connection has already ended.
func (b *handshakeBook) establish(ctx context.Context) bool {
	a := attemptOf(ctx)
	if !a.state.CompareAndSwap(attemptOpen, attemptEstablished) {
		return false
	}
	b.handshaking.Add(-1)
	b.accepted.Add(1)
	return true
}

// end is called when a connection, or an attempt, is over.
func (b *handshakeBook) end(a *attempt, remote net.Addr, cause error) {
	if !a.state.CompareAndSwap(attemptOpen, attemptFailed) {
		return
	}
	b.handshaking.Add(-1)
	err := mapError(cause)
	kind := failureKind(err)
	if kind == FailLimit && b.stopped() {
		kind = FailDraining
	}
	b.fail(kind, remote, err)
}

// mustProveAddress decides whether the next attempt has to prove its source address.
func (b *handshakeBook) mustProveAddress() bool {
	if b.handshaking.Load() < int64(b.cfg.RetryAbove) {
		return false
	}
	b.proofs.Add(1)
	return true
}

func (b *handshakeBook) count(kind HandshakeFailure) { b.failures[kind].Add(1) }

// fail counts a failed attempt and logs it, at most once per kind and interval.
func (b *handshakeBook) fail(kind HandshakeFailure, remote net.Addr, err error) {
	b.count(kind)
	if b.cfg.Logger == nil {
		return
	}
	if ok, skipped := b.lines[kind].allow(time.Now()); ok {
		b.cfg.Logger.Warn("handshake failed",
			slog.String("kind", kind.String()),
			slog.String("peer", remote.String()),
			slog.Any("error", err),
			slog.Uint64("not_logged", skipped))
	}
}

// failureKind sorts the error of a failed attempt.
func failureKind(err error) HandshakeFailure {
	var h *HandshakeError
	var p *ProtocolError
	var a *ApplicationError
	switch {
	case errors.As(err, &h):
		return h.Kind
	case errors.Is(err, ErrHandshakeTimeout), errors.Is(err, ErrIdleTimeout):
		return FailTimeout
	case errors.Is(err, ErrRefused):
		return FailLimit
	case errors.As(err, &a):
		return FailAborted
	case errors.As(err, &p) && p.Remote:
		return FailAborted
	case errors.As(err, &p):
		return FailProtocol
	}
	return FailOther
}

// lineInterval is the least time between two log lines of the same kind.
const lineInterval = 10 * time.Second

// lineLimiter lets one log line pass per interval and counts the others.
type lineLimiter struct {
	mu      sync.Mutex
	next    time.Time
	skipped uint64
}

func (l *lineLimiter) allow(now time.Time) (ok bool, skipped uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.next) {
		l.skipped++
		return false, 0
	}
	skipped, l.skipped = l.skipped, 0
	l.next = now.Add(lineInterval)
	return true, skipped
}
