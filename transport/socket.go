package transport

import (
	"context"
	"fmt"
	"net"
	"net/netip"
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

func newSocket(sock *udp.Conn, c Config) *socket {
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
	if err := t.quic.Close(); err != nil {
		_ = t.sock.Close() // the first error counts
		return fmt.Errorf("transport: close: %w", err)
	}
	if err := t.sock.Close(); err != nil {
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
	case err != nil: // a name, or nothing
		return "udp", nil
	case ip.Is4():
		return "udp4", nil
	case ip.IsUnspecified():
		return "udp", nil
	}
	return "udp6", nil
}

// connSet holds the connections of an endpoint until they end.
type connSet struct {
	mu  sync.Mutex
	all map[*Conn]struct{}
}

// add registers a connection until it ends and returns how many there are now.
func (s *connSet) add(c *Conn) int {
	s.mu.Lock()
	if s.all == nil {
		s.all = make(map[*Conn]struct{})
	}
	s.all[c] = struct{}{}
	n := len(s.all)
	s.mu.Unlock()
	context.AfterFunc(c.ctx, func() {
		s.mu.Lock()
		delete(s.all, c)
		s.mu.Unlock()
	})
	return n
}

func (s *connSet) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// closeAll closes every connection with code 0 and returns when all have ended.
func (s *connSet) closeAll() {
	var closing sync.WaitGroup
	s.mu.Lock()
	for c := range s.all {
		closing.Go(func() { _ = c.CloseWithError(0, "") }) // always nil
	}
	s.mu.Unlock()
	closing.Wait()
}
