package transport

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"

	"github.com/quic-go/quic-go"

	"felix/udp"
)

// socket is a UDP socket with the QUIC transport that runs on it, for both roles.
type socket struct {
	cfg    Config
	sock   *udp.Conn
	quic   *quic.Transport
	sizes  packetSizes
	budget receiveBudget
}

// quietBuffers keeps quic-go from printing about socket buffers: package udp asks for them and reports what it got.
var quietBuffers = sync.OnceValue(func() error {
	return os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")
})

func newSocket(sock *udp.Conn, c Config) *socket {
	_ = quietBuffers() // a message more does no harm
	t := &socket{cfg: c, sock: sock, sizes: choosePacketSizes(c, Engine().PacketCeiling, sock.Granted())}
	t.quic = &quic.Transport{Conn: sock}
	if c.StatelessResetKey != nil {
		key := quic.StatelessResetKey(*c.StatelessResetKey)
		t.quic.StatelessResetKey = &key
	}
	return t
}

// packetsFor returns the packet sizes used with a peer.
func (t *socket) packetsFor(remote net.Addr) packetSize {
	if isLoopback(remote) {
		return t.sizes.loopback
	}
	return t.sizes.path
}

// quicConfig returns the settings for a peer.
func (t *socket) quicConfig(remote net.Addr) *quic.Config {
	size := t.packetsFor(remote)
	return &quic.Config{
		Versions:                       []quic.Version{quic.Version1},
		HandshakeIdleTimeout:           t.cfg.HandshakeTimeout / 2, // quic-go doubles it for the whole handshake
		MaxIdleTimeout:                 t.cfg.IdleTimeout,
		KeepAlivePeriod:                max(t.cfg.KeepAlive, 0),
		InitialStreamReceiveWindow:     t.cfg.StreamWindow.Initial,
		MaxStreamReceiveWindow:         t.cfg.StreamWindow.Max,
		InitialConnectionReceiveWindow: t.cfg.ConnWindow.Initial,
		MaxConnectionReceiveWindow:     t.cfg.ConnWindow.Max,
		AllowConnectionWindowIncrease:  t.allowWindow,
		MaxIncomingStreams:             t.cfg.MaxIncomingStreams,
		MaxIncomingUniStreams:          t.cfg.MaxIncomingUniStreams,
		InitialPacketSize:              size.initial,
		DisablePathMTUDiscovery:        size.fixed,
	}
}

// allowWindow is called by quic-go with locks held: it may only look at the context of the connection.
func (t *socket) allowWindow(c *quic.Conn, delta uint64) bool {
	return t.budget.take(attemptOf(c.Context()), int64(delta), t.cfg.ReceiveBudget)
}

// close ends what still runs on the socket without telling the peers, then closes it.
func (t *socket) close() error {
	err := t.quic.Close()
	// A socket that has failed may be closed already.
	if cerr := t.sock.Close(); err == nil && !errors.Is(cerr, net.ErrClosed) {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("transport: close: %w", err)
	}
	return nil
}

func isLoopback(a net.Addr) bool {
	u, ok := a.(*net.UDPAddr)
	return ok && u.IP.IsLoopback()
}

// networkOf chooses the network for a listening address. An IPv4 address means IPv4 only, an IPv6 address IPv6 only;
// no address, and "::", mean both where the host has both.
func networkOf(addr string) (string, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return "udp", nil //nolint:nilerr // a name, or nothing: that is no failure
	case ip.Is4():
		return "udp4", nil
	case ip.IsUnspecified():
		return "udp", nil
	}
	return "udp6", nil
}
