package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"felix/udp"
)

// Dialer opens connections to servers. All connections to peers of one kind (IPv4 or IPv6, loopback or not) share a
// UDP socket, which is opened when it is first needed.
type Dialer struct {
	cfg   Config
	conns *connSet

	mu      sync.Mutex
	closed  bool
	sockets map[socketKind]*socket
}

type socketKind struct{ v6, loopback bool }

// bind returns the network and address of a socket of this kind. A socket bound to a loopback address spares the
// kernel and quic-go the packet info of every datagram.
func (k socketKind) bind() (network, addr string) {
	switch {
	case k.v6 && k.loopback:
		return "udp6", "[::1]:0"
	case k.v6:
		return "udp6", "[::]:0"
	case k.loopback:
		return "udp4", "127.0.0.1:0"
	}
	return "udp4", "0.0.0.0:0"
}

// NewDialer checks the settings. c.TLS says how servers are checked, see ClientTLS.
func NewDialer(c Config) (*Dialer, error) {
	c, err := c.withDefaults(dialerWindows)
	if err != nil {
		return nil, err
	}
	return &Dialer{cfg: c, conns: newConnSet(c.Logger), sockets: make(map[socketKind]*socket)}, nil
}

// addressStagger is the head start of each address of a server over the next one (RFC 8305, 5).
const addressStagger = 250 * time.Millisecond

// Dial connects to addr ("host:port"). The addresses of a host name are tried one after the other, each without
// waiting long for the one before it. Errors: ErrHandshakeTimeout, ErrRefused, *HandshakeError, *ApplicationError,
// *ProtocolError, ErrPacketTooBig, ErrEndpointClosed, *net.DNSError, the cause of ctx; all wrapped.
func (d *Dialer) Dial(ctx context.Context, addr string) (*Conn, error) {
	c, err := d.dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("transport: dial %s: %w", addr, err)
	}
	return c, nil
}

func (d *Dialer) dial(ctx context.Context, addr string) (*Conn, error) {
	remotes, err := resolve(ctx, addr)
	if err != nil {
		return nil, err
	}
	if len(remotes) == 1 {
		return d.dialAddr(ctx, remotes[0])
	}
	return d.race(ctx, remotes)
}

// race dials the addresses with staggered starts and returns the first connection.
func (d *Dialer) race(ctx context.Context, remotes []netip.AddrPort) (*Conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errOtherAddress)
	type outcome struct {
		conn *Conn
		err  error
	}
	outcomes := make(chan outcome)
	var failed []error
	for next := 0; len(failed) < len(remotes); {
		var later <-chan time.Time
		if next < len(remotes) {
			remote := remotes[next]
			go func() {
				c, err := d.dialAddr(ctx, remote)
				select {
				case outcomes <- outcome{c, err}:
				case <-ctx.Done():
					if c != nil {
						_ = c.CloseWithError(0, "") // another address was quicker
					}
				}
			}()
			next++
			later = time.After(addressStagger)
		}
		select {
		case o := <-outcomes:
			if o.err == nil {
				return o.conn, nil
			}
			failed = append(failed, o.err)
		case <-later:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return nil, errors.Join(failed...)
}

var errOtherAddress = errors.New("another address answered first")

func (d *Dialer) dialAddr(ctx context.Context, remote netip.AddrPort) (*Conn, error) {
	s, err := d.socketFor(remote.Addr())
	if err != nil {
		return nil, err
	}
	to := net.UDPAddrFromAddrPort(remote)
	ctx = context.WithValue(ctx, attemptKey{}, new(attempt))
	qc, err := s.quic.Dial(ctx, to, d.cfg.TLS, s.quicConfig(to))
	if err != nil {
		return nil, mapError(err)
	}
	c := s.newConn(qc)
	d.conns.add(c)
	return c, nil
}

// socketFor returns the socket for a peer, opening it if it is the first of its kind.
func (d *Dialer) socketFor(peer netip.Addr) (*socket, error) {
	kind := socketKind{v6: peer.Is6(), loopback: peer.IsLoopback()}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, ErrEndpointClosed
	}
	if s := d.sockets[kind]; s != nil {
		return s, nil
	}
	network, addr := kind.bind()
	sock, err := udp.Listen(network, addr, d.cfg.Socket)
	if err != nil {
		return nil, err
	}
	s := newSocket(sock, d.cfg)
	d.sockets[kind] = s
	return s, nil
}

// Sockets returns the open sockets, for their counters and capabilities. They must not be read from, written to or
// closed.
func (d *Dialer) Sockets() []*udp.Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]*udp.Conn, 0, len(d.sockets))
	for _, s := range d.sockets {
		all = append(all, s.sock)
	}
	return all
}

// Close closes every connection of the dialer (application code 0, no reason) and its sockets. It may be called more
// than once.
func (d *Dialer) Close() error {
	d.mu.Lock()
	d.closed = true
	sockets := d.sockets
	d.sockets = nil
	d.mu.Unlock()
	d.conns.closeAll()
	var errs []error
	for _, s := range sockets {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// resolve returns the addresses of a server, IPv4 first.
func resolve(ctx context.Context, addr string) ([]netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "udp", service)
	if err != nil {
		return nil, err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(ips, func(a, b netip.Addr) int { return rank(a) - rank(b) })
	all := make([]netip.AddrPort, 0, len(ips))
	for _, ip := range ips {
		all = append(all, netip.AddrPortFrom(ip.Unmap(), uint16(port)))
	}
	if len(all) == 0 {
		return nil, &net.AddrError{Err: "no address", Addr: net.JoinHostPort(host, strconv.Itoa(port))}
	}
	return all, nil
}

func rank(ip netip.Addr) int {
	if ip.Unmap().Is4() {
		return 0
	}
	return 1
}
