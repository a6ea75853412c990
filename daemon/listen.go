package daemon

import (
	"context"
	"errors"
	"net"
	"syscall"

	"felix/broker/session"
	"felix/transport"
)

// listenError explains why an address could not be bound.
func listenError(step, addr string, err error) error {
	return &StartError{Step: step + " " + addr, Err: cause(err), Hint: listenHint(addr, err)}
}

// cause strips the operation and address that the net package repeats.
func cause(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

func listenHint(addr string, err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "another process has it: stop that one or choose another address"
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EAFNOSUPPORT):
		if host, _, splitErr := net.SplitHostPort(addr); splitErr == nil {
			if ip := net.ParseIP(host); ip != nil && ip.To4() == nil {
				return "this host has no such IPv6 address: is IPv6 switched off?"
			}
		}
		return "this host has no such address"
	case errors.Is(err, syscall.EACCES):
		return "ports below 1024 need CAP_NET_BIND_SERVICE"
	}
	return ""
}

// quicConn is a transport connection as the protocol server wants it.
type quicConn struct{ *transport.Conn }

func (c quicConn) AcceptStream(ctx context.Context) (session.Stream, error) {
	s, err := c.Conn.AcceptStream(ctx)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (c quicConn) AcceptUniStream(ctx context.Context) (session.ReceiveStream, error) {
	s, err := c.Conn.AcceptUniStream(ctx)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (c quicConn) OpenUniStream(ctx context.Context) (session.SendStream, error) {
	s, err := c.Conn.OpenUniStream(ctx)
	if err != nil {
		return nil, err
	}
	return s, nil
}
