package client

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"time"

	"felix/transport"
	"felix/wire"
)

// Defaults of Config, see there.
const (
	DefaultServerName       = "localhost"
	DefaultNamespace        = "default"
	DefaultPublishConns     = 1
	DefaultPublishStreams   = 4
	DefaultEventConns       = 1
	DefaultCacheConns       = 1
	DefaultCacheStreams     = 4
	DefaultInflightBytes    = 4 << 20
	DefaultInflightRequests = 64
	DefaultAckTimeout       = 30 * time.Second
	DefaultRequestTimeout   = 10 * time.Second
	DefaultReconnectTimeout = 30 * time.Second
	DefaultPendingStreams   = 1024
	DefaultMaxAttempts      = 10
	DefaultProbeInterval    = 5 * time.Second
	DefaultMinBackoff       = 50 * time.Millisecond
	DefaultMaxBackoff       = 2 * time.Second
)

// Sharding chooses the publish stream (a QUIC stream) that carries a Felix stream. Either way a Felix stream stays on one
// publish stream, so the order of its messages is kept.
type Sharding uint8

const (
	// HashStream derives the publish stream from a hash of tenant, namespace and stream. Default.
	HashStream Sharding = iota
	// RoundRobin gives each Felix stream the next publish stream when it is first published to, which spreads a
	// few busy Felix streams evenly.
	RoundRobin
)

// Config holds the settings of a Client. The zero value of every field stands for the default that its comment names;
// Addr, Tenant and one of Token and TokenSource are required. A Config is copied by Connect; the values it points to
// must not be changed afterwards.
type Config struct {
	// Addr is the broker's UDP address, "host:port". A host name is looked up at every dial.
	Addr string
	// ServerName is the name that the broker's certificate must have. Default "localhost".
	ServerName string
	// RootCAs are the certificates that the broker's one must lead to. Default: those in CAFile.
	RootCAs *x509.CertPool
	// CAFile is a PEM file with such certificates, used if RootCAs is nil. Default: the system's roots.
	CAFile string
	// OfferALPN offers the application protocol "felix/1" in the TLS handshake. The original broker refuses clients
	// that do. Default false.
	OfferALPN bool

	// Tenant is the tenant that every call of the client uses.
	Tenant string
	// Namespace holds the streams and caches. Default "default".
	Namespace string
	// Token is the JWT that authenticates every stream.
	Token string
	// TokenSource returns a token and is used instead of Token if set. The client keeps the token and asks for another
	// one only after the broker has refused it; that one is tried once. It may be called from several goroutines.
	TokenSource func(context.Context) (string, error)

	// PublishConns is the number of connections for publishing. Default 1.
	PublishConns int
	// PublishStreams is the number of publish streams on each of them; a Felix stream uses one. Default 4.
	PublishStreams int
	// EventConns is the number of connections that subscriptions are spread over, in turn. Default 1.
	EventConns int
	// CacheConns is the number of connections for the caches. Default 1.
	CacheConns int
	// CacheStreams is the number of cache streams on each of them. A stream carries one request at a time. Default 4.
	CacheStreams int

	// Sharding chooses the publish stream of a Felix stream. Default HashStream.
	Sharding Sharding
	// InflightBytes bounds the frames of one publish stream that were handed over and not yet acknowledged (or, for
	// publishes without acknowledgement, not yet written), in bytes. A larger frame goes alone. Default 4 MiB.
	InflightBytes int64
	// InflightRequests bounds the same in requests. Default 64, the depth of the original broker's queues.
	InflightRequests int
	// MaxFrameBytes is the largest frame payload sent or accepted, in bytes. It must not be above the broker's.
	// Default 16 MiB.
	MaxFrameBytes int
	// AckTimeout is how long the oldest unanswered publish of a stream may wait before ErrAckTimeout. It is noticed
	// up to a quarter later. Default 30 s.
	AckTimeout time.Duration
	// RequestTimeout bounds the authentication of a stream, the set-up of a subscription and a cache request, each.
	// Default 10 s.
	RequestTimeout time.Duration
	// MaxPendingEventStreams bounds, per connection, the event streams whose subscription is not known yet. Further
	// ones are refused. Default 1024.
	MaxPendingEventStreams int

	// Retry chooses between losing and doubling a message when a connection breaks. Default AtMostOnce.
	Retry Retry
	// MaxAttempts is how often AtLeastOnce sends a message before it gives up. Default 10.
	MaxAttempts int
	// Backoff paces redials and retries.
	Backoff Backoff
	// ReconnectTimeout is how long an operation waits for a lost broker before it fails with a ConnectionError; its
	// context may end it earlier. Negative: only the context does. Default 30 s.
	ReconnectTimeout time.Duration

	// ProbeInterval is how often a connection on which nothing was received is asked for a sign of life, by opening a
	// unidirectional stream that holds no more than the token. QUIC's own keep-alives are so small that a broker which
	// was restarted may not answer them, and the loss would show only after the idle timeout. Negative: never. Default
	// 5 s.
	ProbeInterval time.Duration

	// Transport tunes the QUIC connections. Its TLS field is not used.
	Transport transport.Config
	// Logger receives lost and restored connections. Nil: nothing is logged.
	Logger *slog.Logger
}

// Backoff is the pause before a further attempt: Min after the first failure, doubled by each further one up to Max, and
// of that a random part between a half and the whole.
type Backoff struct {
	Min time.Duration // default 50 ms
	Max time.Duration // default 2 s
}

// Retry is the policy for publishes whose outcome is unknown, and for those that the broker refuses for the moment.
type Retry uint8

const (
	// AtMostOnce sends every message once. A lost connection fails what was not acknowledged. Default.
	AtMostOnce Retry = iota
	// AtLeastOnce sends again what was not acknowledged, so that a message may arrive more than once.
	AtLeastOnce
)

// withDefaults checks the settings and fills in the defaults.
func (c Config) withDefaults() (Config, error) {
	for _, n := range []struct {
		name   string
		value  *int
		preset int
	}{
		{"PublishConns", &c.PublishConns, DefaultPublishConns},
		{"PublishStreams", &c.PublishStreams, DefaultPublishStreams},
		{"EventConns", &c.EventConns, DefaultEventConns},
		{"CacheConns", &c.CacheConns, DefaultCacheConns},
		{"CacheStreams", &c.CacheStreams, DefaultCacheStreams},
		{"InflightRequests", &c.InflightRequests, DefaultInflightRequests},
		{"MaxFrameBytes", &c.MaxFrameBytes, wire.DefaultMaxFrameBytes},
		{"MaxPendingEventStreams", &c.MaxPendingEventStreams, DefaultPendingStreams},
		{"MaxAttempts", &c.MaxAttempts, DefaultMaxAttempts},
	} {
		if *n.value < 0 {
			return c, fmt.Errorf("%w: %s is %d", ErrConfig, n.name, *n.value)
		}
		*n.value = cmp.Or(*n.value, n.preset)
	}
	for _, d := range []struct {
		name   string
		value  *time.Duration
		preset time.Duration
	}{
		{"AckTimeout", &c.AckTimeout, DefaultAckTimeout},
		{"RequestTimeout", &c.RequestTimeout, DefaultRequestTimeout},
		{"Backoff.Min", &c.Backoff.Min, DefaultMinBackoff},
		{"Backoff.Max", &c.Backoff.Max, DefaultMaxBackoff},
	} {
		if *d.value < 0 {
			return c, fmt.Errorf("%w: %s is %v", ErrConfig, d.name, *d.value)
		}
		*d.value = cmp.Or(*d.value, d.preset)
	}
	if c.InflightBytes < 0 {
		return c, fmt.Errorf("%w: InflightBytes is %d", ErrConfig, c.InflightBytes)
	}
	c.InflightBytes = cmp.Or(c.InflightBytes, DefaultInflightBytes)
	c.Backoff.Max = max(c.Backoff.Max, c.Backoff.Min)
	c.ReconnectTimeout = cmp.Or(c.ReconnectTimeout, DefaultReconnectTimeout)
	c.ProbeInterval = cmp.Or(c.ProbeInterval, DefaultProbeInterval)
	c.ServerName = cmp.Or(c.ServerName, DefaultServerName)
	c.Namespace = cmp.Or(c.Namespace, DefaultNamespace)
	return c, c.validate()
}

func (c Config) validate() error {
	if _, _, err := net.SplitHostPort(c.Addr); err != nil {
		return fmt.Errorf("%w: Addr %q: %w", ErrConfig, c.Addr, err)
	}
	switch {
	case uint64(c.MaxFrameBytes) > math.MaxUint32:
		return fmt.Errorf("%w: MaxFrameBytes is %d, above what a frame can say", ErrConfig, c.MaxFrameBytes)
	case c.Tenant == "":
		return fmt.Errorf("%w: Tenant is empty", ErrConfig)
	case c.Token == "" && c.TokenSource == nil:
		return fmt.Errorf("%w: neither Token nor TokenSource is set", ErrConfig)
	case c.Sharding > RoundRobin:
		return fmt.Errorf("%w: Sharding is %d", ErrConfig, c.Sharding)
	case c.Retry > AtLeastOnce:
		return fmt.Errorf("%w: Retry is %d", ErrConfig, c.Retry)
	}
	return nil
}

// pause returns how long to wait after the given number of failures in a row, which is at least 1.
func (b Backoff) pause(failures int) time.Duration {
	d := b.Min
	for range failures - 1 {
		if d >= b.Max {
			break
		}
		d *= 2
	}
	d = min(d, b.Max)
	return d - rand.N(d/2+1)
}
