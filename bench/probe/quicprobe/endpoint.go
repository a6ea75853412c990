package quicprobe

import (
	"context"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"felix/platform"
	"felix/transport"
	"felix/udp"
)

// endpoint is the QUIC side of a process: a listener or a dialer, and what is
// connected through it.
type endpoint struct {
	o        Options
	role     string
	cert     []byte // the listener's, DER
	listener *transport.Listener
	dialer   *transport.Dialer
	// conns by the role of the peer, in the order of their numbers.
	conns map[string][]*transport.Conn
	dial  time.Duration // longest handshake
}

// listen opens a listener with a certificate of its own.
func listen(o Options, role string) (*endpoint, error) {
	id, err := shortIdentity()
	if err != nil {
		return nil, err
	}
	c := o.endpoint()
	c.TLS = transport.ServerTLS(id)
	l, err := transport.Listen(o.listenAddr(), c)
	if err != nil {
		return nil, err
	}
	return &endpoint{
		o: o, role: role, listener: l, cert: id.Certificate().Leaf.Raw,
		conns: make(map[string][]*transport.Conn),
	}, nil
}

// shortIdentity makes an identity that leaves nothing on disk.
func shortIdentity() (id *transport.Identity, err error) {
	dir, err := os.MkdirTemp("", "felix-probe-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return transport.LoadOrCreateIdentity(dir)
}

// greeting opens a connection: the number of the role and of the connection.
const greetingLen = 3

// welcomed are the roles that connect to a listener, by their number.
var welcomed = []string{roleSender, rolePublisher, roleSubscriber}

// accept takes a connection for each number of each role.
func (e *endpoint) accept(ctx context.Context, roles ...string) error {
	for _, role := range roles {
		e.conns[role] = make([]*transport.Conn, e.o.Connections)
	}
	for range len(roles) * e.o.Connections {
		c, err := e.listener.Accept(ctx)
		if err != nil {
			return err
		}
		if err := e.welcome(ctx, c); err != nil {
			return fmt.Errorf("greeting: %w", err)
		}
	}
	return nil
}

func (e *endpoint) welcome(ctx context.Context, c *transport.Conn) error {
	s, err := c.AcceptStream(ctx)
	if err != nil {
		return err
	}
	var b [greetingLen]byte
	if _, err := io.ReadFull(s, b[:]); err != nil {
		return err
	}
	if int(b[0]) >= len(welcomed) {
		return fmt.Errorf("unknown role %d", b[0])
	}
	role, n := welcomed[b[0]], int(binary.BigEndian.Uint16(b[1:]))
	if n >= len(e.conns[role]) || e.conns[role][n] != nil {
		return fmt.Errorf("an unexpected connection %d of a %s", n, role)
	}
	e.conns[role][n] = c
	if _, err := s.Write(b[:1]); err != nil {
		return err
	}
	return s.CloseWrite()
}

// connect opens a dialer and all connections to the listener.
func connect(ctx context.Context, s spec, peer string) (*endpoint, error) {
	leaf, err := x509.ParseCertificate(s.Cert)
	if err != nil {
		return nil, fmt.Errorf("certificate of the %s: %w", peer, err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	c := s.Options.endpoint()
	if c.TLS, err = transport.ClientTLS(transport.ClientTLSOptions{RootCAs: pool}); err != nil {
		return nil, err
	}
	d, err := transport.NewDialer(c)
	if err != nil {
		return nil, err
	}
	e := &endpoint{o: s.Options, role: s.Role, dialer: d, conns: make(map[string][]*transport.Conn)}
	defer context.AfterFunc(ctx, func() { _ = e.close() })() // greetings do not end with the context
	for n := range s.Options.Connections {
		if err := e.connectOne(ctx, s.Addr, peer, n); err != nil {
			return nil, errors.Join(err, e.close())
		}
	}
	return e, nil
}

func (e *endpoint) connectOne(ctx context.Context, addr, peer string, n int) error {
	start := time.Now()
	c, err := e.dialer.Dial(ctx, addr)
	if err != nil {
		return err
	}
	e.dial = max(e.dial, time.Since(start))
	e.conns[peer] = append(e.conns[peer], c)
	s, err := c.OpenStream(ctx)
	if err != nil {
		return err
	}
	b := make([]byte, greetingLen)
	for i, role := range welcomed {
		if role == e.role {
			b[0] = byte(i)
		}
	}
	binary.BigEndian.PutUint16(b[1:], uint16(n))
	if _, err := s.Write(b); err != nil {
		return err
	}
	if err := s.CloseWrite(); err != nil {
		return err
	}
	if _, err := io.ReadAll(s); err != nil {
		return fmt.Errorf("greeting the %s: %w", peer, err)
	}
	return nil
}

func (e *endpoint) close() error {
	if e.listener != nil {
		return e.listener.Close()
	}
	return e.dialer.Close()
}

// sockets returns the open sockets, one but for a dialer that has none yet.
func (e *endpoint) sockets() []*udp.Conn {
	if e.listener != nil {
		return []*udp.Conn{e.listener.Socket()}
	}
	return e.dialer.Sockets()
}

// side describes the process; its use of the processors is that since before.
func (e *endpoint) side(before platform.Usage) *side {
	x := &side{PID: os.Getpid(), Width: runtime.GOMAXPROCS(0)}
	if now, err := platform.ProcessUsage(); err == nil {
		x.Usage = now.Sub(before) // zero where the system does not tell
	}
	var sum udp.Stats
	for _, s := range e.sockets() {
		sum = sum.Add(s.Stats())
		x.Granted, x.Capabilities = s.Granted(), s.Capabilities()
	}
	x.Counters = sum.Map()
	for _, peer := range []string{roleSender, roleReceiver, rolePublisher, roleRelay, roleSubscriber} {
		for _, c := range e.conns[peer] {
			if c != nil {
				x.Conns = append(x.Conns, connSide{Peer: peer, Stats: c.Stats()})
			}
		}
	}
	return x
}
