package transport

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"felix/udp"
)

// Window is a flow-control receive window in bytes. The peer may have Initial bytes under way from the start; while
// the application reads as fast as data arrives, quic-go doubles the window up to Max. A field that is zero takes the
// default of the setting it belongs to.
type Window struct {
	Initial uint64
	Max     uint64
}

// Config holds the settings of an endpoint. The zero value of every field stands for the default that its comment
// names. A Config is copied by Listen and NewDialer; the values it points to must not be changed afterwards.
type Config struct {
	// TLS is required: see ServerTLS and ClientTLS. Versions below 1.3 cannot be negotiated over QUIC.
	TLS *tls.Config
	// Socket configures the UDP socket or sockets of the endpoint.
	Socket udp.Config
	// StatelessResetKey lets a restarted server tell the clients of its predecessor at once that their connections
	// are gone (RFC 9000, 10.3). It must survive restarts and stay secret. Nil: no stateless resets are sent.
	// Clients need none.
	StatelessResetKey *[32]byte

	// KeepAlive is the period of keep-alive packets, at most half of the idle timeout. Default 5 s; negative: none.
	KeepAlive time.Duration
	// IdleTimeout ends a connection from which nothing was received for this long; the smaller value of the two ends
	// counts (RFC 9000, 10.1). Default 30 s.
	IdleTimeout time.Duration
	// HandshakeTimeout bounds a handshake; a peer silent for half of it is given up as well. Default 10 s.
	HandshakeTimeout time.Duration

	// MaxIncomingStreams is the number of bidirectional streams that the peer may have open. Default 4096.
	MaxIncomingStreams int64
	// MaxIncomingUniStreams is the same for unidirectional streams. Default 16384: a subscription takes one.
	MaxIncomingUniStreams int64
	// StreamWindow is the receive window of each stream. Default of a listener 2 MiB to 16 MiB, of a dialer 4 MiB to
	// 16 MiB.
	StreamWindow Window
	// ConnWindow is the receive window of a connection. It bounds what the peer can make this process hold, whatever
	// the streams do, and so how many unread streams it takes to stop a connection. Default of a listener 16 MiB to
	// 64 MiB, of a dialer 64 MiB to 256 MiB: a listener does not know its peers.
	ConnWindow Window
	// ReceiveBudget bounds what all connections of the endpoint together may add to their initial connection windows,
	// in bytes. A connection that would exceed it keeps the window it has. Default 1 GiB.
	ReceiveBudget int64

	// InitialPacketSize fixes the first and smallest size of the packets sent, in bytes of UDP payload, from 1200 up
	// to the ceiling of the engine. Default: see the package's packet size policy in docs/transport.md.
	InitialPacketSize uint16
	// DisablePMTUD keeps packets at their initial size.
	DisablePMTUD bool
	// LoopbackPacketSize caps the fixed packet size used with peers on loopback. Default: the ceiling of the engine.
	// Ignored if InitialPacketSize is set.
	LoopbackPacketSize uint16

	// RequireALPN makes a listener refuse clients that offer no application protocol.
	RequireALPN bool
	// MaxConns bounds the established connections of a listener. A client above it is told so by an application close
	// with code CodeLimitExceeded. Default 65536; negative: no bound.
	MaxConns int
	// MaxHandshakes bounds the handshakes a listener has in progress; above it, attempts are refused unseen
	// (CONNECTION_REFUSED). Default 1024; negative: no bound.
	MaxHandshakes int
	// RetryAbove is the number of handshakes in progress from which on a client must prove its address first, at the
	// cost of one more round trip (RFC 9000, 8.1.2). Default 256; negative: always.
	RetryAbove int

	// Logger receives failed handshakes (with a rate limit) and paths given up. Nil: nothing is logged.
	Logger *slog.Logger
}

// Defaults of Config, see there.
const (
	DefaultKeepAlive             = 5 * time.Second
	DefaultIdleTimeout           = 30 * time.Second
	DefaultHandshakeTimeout      = 10 * time.Second
	DefaultMaxIncomingStreams    = 4096
	DefaultMaxIncomingUniStreams = 16384
	DefaultReceiveBudget         = 1 << 30
	DefaultMaxConns              = 65536
	DefaultMaxHandshakes         = 1024
	DefaultRetryAbove            = 256
)

// Default windows of the two roles. On loopback the round trip is far too short for quic-go's window tuning to set in,
// so the initial windows have to cover the pauses of a busy scheduler (4 MiB are 4 ms at 1 GB/s); the maxima serve
// long paths (64 MiB at 100 ms are 5 Gbit/s).
var (
	listenerWindows = windows{stream: Window{2 << 20, 16 << 20}, conn: Window{16 << 20, 64 << 20}}
	dialerWindows   = windows{stream: Window{4 << 20, 16 << 20}, conn: Window{64 << 20, 256 << 20}}
)

type windows struct{ stream, conn Window }

// MinPacketSize is the smallest packet size a QUIC path must carry, in bytes of UDP payload (RFC 9000, 14).
const MinPacketSize = 1200

// withDefaults returns a copy with every zero field replaced, or an error for values that make no sense.
func (c Config) withDefaults(w windows) (Config, error) {
	if c.TLS == nil {
		return c, fmt.Errorf("transport: config: TLS is not set")
	}
	if c.InitialPacketSize != 0 && c.InitialPacketSize < MinPacketSize {
		return c, fmt.Errorf("transport: config: initial packet size %d is below %d", c.InitialPacketSize, MinPacketSize)
	}
	if c.LoopbackPacketSize != 0 && c.LoopbackPacketSize < MinPacketSize {
		return c, fmt.Errorf("transport: config: loopback packet size %d is below %d", c.LoopbackPacketSize, MinPacketSize)
	}
	if c.IdleTimeout < 0 || c.HandshakeTimeout < 0 {
		return c, fmt.Errorf("transport: config: negative timeout")
	}
	setDefault(&c.KeepAlive, DefaultKeepAlive)
	setDefault(&c.IdleTimeout, DefaultIdleTimeout)
	setDefault(&c.HandshakeTimeout, DefaultHandshakeTimeout)
	setDefault(&c.MaxIncomingStreams, DefaultMaxIncomingStreams)
	setDefault(&c.MaxIncomingUniStreams, DefaultMaxIncomingUniStreams)
	setDefault(&c.ReceiveBudget, DefaultReceiveBudget)
	setDefault(&c.MaxConns, DefaultMaxConns)
	setDefault(&c.MaxHandshakes, DefaultMaxHandshakes)
	setDefault(&c.RetryAbove, DefaultRetryAbove)
	c.StreamWindow = c.StreamWindow.withDefault(w.stream)
	c.ConnWindow = c.ConnWindow.withDefault(w.conn)
	c.TLS = c.TLS.Clone()
	return c, nil
}

func (w Window) withDefault(d Window) Window {
	setDefault(&w.Initial, d.Initial)
	setDefault(&w.Max, max(d.Max, w.Initial))
	w.Initial = min(w.Initial, w.Max)
	return w
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}
