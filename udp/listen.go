package udp

import (
	"fmt"
	"net"
	"os"

	"felix/platform"
)

// Listen opens a UDP socket on addr, "host:port" with an empty host for all
// addresses, which serves both IP versions if the network is udp. The network
// is udp, udp4 or udp6. An address that the host does not have, ::1 on a host
// without IPv6 for instance, is an error.
//
// On return the socket is bound and its options and buffers are set. A switch
// that is On and not available gives a *SwitchError.
func Listen(network, addr string, c Config) (*Conn, error) {
	uc, err := listen(network, addr)
	if err != nil {
		return nil, fmt.Errorf("udp: %w", err)
	}
	conn, err := newConn(uc, c)
	if err != nil {
		_ = uc.Close() // the socket has carried nothing; the first error is the one to report
		return nil, fmt.Errorf("udp: listen on %s %s: %w", network, addr, err)
	}
	return conn, nil
}

func listen(network, addr string) (*net.UDPConn, error) {
	a, err := net.ResolveUDPAddr(network, addr)
	if err != nil {
		return nil, err
	}
	return net.ListenUDP(network, a)
}

// Adopt makes a Conn of a UDP socket that was opened elsewhere, for instance by
// a service manager. It works on a duplicate that is non-blocking and not
// inherited by child processes; f stays the caller's to close. Options and
// buffers are set as by Listen. A file that is no UDP socket is an error.
func Adopt(f *os.File, c Config) (*Conn, error) {
	pc, err := net.FilePacketConn(f)
	if err != nil {
		return nil, fmt.Errorf("udp: adopt %s: %w", f.Name(), err)
	}
	uc, ok := pc.(*net.UDPConn)
	if !ok {
		_ = pc.Close() // not ours to use
		return nil, fmt.Errorf("udp: adopt %s: a socket of kind %s, want udp", f.Name(), pc.LocalAddr().Network())
	}
	conn, err := newConn(uc, c)
	if err != nil {
		_ = uc.Close() // the duplicate has carried nothing
		return nil, fmt.Errorf("udp: adopt %s: %w", f.Name(), err)
	}
	return conn, nil
}

func newConn(uc *net.UDPConn, cfg Config) (*Conn, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	local, err := localAddr(uc)
	if err != nil {
		return nil, err
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &Conn{uc: uc, raw: raw, cfg: cfg, policy: &hostPolicy, opts: newOptions(raw)}
	s := setup{cfg: &c.cfg, policy: c.policy, opts: c.opts, local: local, kernel: platform.Kernel()}
	if err := s.features(); err != nil {
		return nil, err
	}
	c.caps = s.caps
	c.v6 = s.v6()
	c.buffers = c.policy.setBuffers(c.opts, cfg, readSysctl)
	c.cfg.noticeBuffers(c.buffers)
	c.start(newSystem(uc, raw, s.v6(), s.caps))
	return c, nil
}

// start attaches the system-call layer.
func (c *Conn) start(sys system) {
	c.gso = c.caps.GSO.Active
	c.ecn = c.caps.ECN.Active
	c.segments.Store(int32(c.caps.MaxSegments))
	c.closed = make(chan struct{})
	c.ops.New = func() any { return c.newOp(sys) }
	c.reader.init(c, sys)
}
