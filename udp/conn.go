package udp

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Conn is a UDP socket. All methods may be called concurrently; sends of
// different goroutines do not wait for each other unless the send buffer is
// full. It satisfies net.PacketConn and what quic-go asks of a socket for
// batched input and output.
type Conn struct {
	uc      *net.UDPConn
	raw     syscall.RawConn
	cfg     Config
	policy  *policy
	opts    options
	caps    Capabilities
	buffers Buffers
	v6      bool // an AF_INET6 socket
	gso     bool
	ecn     bool

	closed    chan struct{}
	closeOnce sync.Once

	segments   atomic.Int32 // most datagrams in an aggregate
	noticeOnce atomic.Bool  // SegmentationRefused was reported
	peers      peers
	stats      counters
	drops      dropCounter
	ops        sync.Pool // *sendOp
	reader     reader
}

// LocalAddr returns the bound address, a *net.UDPAddr.
func (c *Conn) LocalAddr() net.Addr { return c.uc.LocalAddr() }

// Close closes the socket. Calls in progress and later ones return an error
// that wraps net.ErrClosed, and so does a second Close.
func (c *Conn) Close() error {
	c.closeOnce.Do(func() { close(c.closed) })
	return c.uc.Close()
}

// SetDeadline sets the deadline of reads and of sends that wait for room.
func (c *Conn) SetDeadline(t time.Time) error { return c.uc.SetDeadline(t) }

// SetReadDeadline sets the deadline of reads, the one in progress included.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.uc.SetReadDeadline(t) }

// SetWriteDeadline sets the deadline of sends that wait for room in the send
// buffer. A send that need not wait is not affected.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.uc.SetWriteDeadline(t) }

// SetReadBuffer changes nothing and returns nil. The size is Config.ReadBuffer;
// quic-go calls this with a figure of its own.
func (c *Conn) SetReadBuffer(int) error { return nil }

// SetWriteBuffer changes nothing and returns nil, like SetReadBuffer.
func (c *Conn) SetWriteBuffer(int) error { return nil }

// Granted returns what the kernel granted of the buffers asked for.
func (c *Conn) Granted() Buffers { return c.buffers }

// Stats returns a snapshot of the counters. It takes no lock; counters that
// belong together may be apart by a call in progress.
func (c *Conn) Stats() Stats {
	if n, ok := c.opts.dropped(); ok {
		c.stats.add(OverflowDrops, c.drops.advance(n))
	}
	return c.stats.snapshot()
}

// Capabilities returns which features the socket uses. MaxSegments follows
// downgrades; segmentation that is switched off for a while after refusals
// shows in the counters instead.
func (c *Conn) Capabilities() Capabilities {
	caps := c.caps
	caps.MaxSegments = int(c.segments.Load())
	return caps
}

// LastRefusal returns the latest refusal of a send to a destination address, so
// that a dial that got no answer can say why. The memory of it is bounded.
func (c *Conn) LastRefusal(addr netip.Addr) (Refusal, bool) {
	return c.peers.lastRefusal(addr)
}

// SyscallConn gives access to the descriptor for socket options. Buffer sizes
// set through it are put back to the granted ones; Read and Write return
// ErrRawIO.
func (c *Conn) SyscallConn() (syscall.RawConn, error) { return optionConn{c}, nil }

type optionConn struct{ c *Conn }

func (o optionConn) Control(f func(fd uintptr)) error {
	if err := o.c.raw.Control(f); err != nil {
		return err
	}
	o.c.policy.restore(o.c.opts, o.c.buffers)
	return nil
}

func (optionConn) Read(func(fd uintptr) bool) error  { return ErrRawIO }
func (optionConn) Write(func(fd uintptr) bool) error { return ErrRawIO }

// dropCounter follows the kernel's 32-bit count of drops, which two sources
// report: control data of received messages, and a socket option.
type dropCounter struct{ last atomic.Uint32 }

// advance moves on to n and returns by how much it is ahead of the last figure
// seen, 0 for an older one.
func (d *dropCounter) advance(n uint32) int {
	for {
		last := d.last.Load()
		ahead := int32(n - last)
		if ahead <= 0 {
			return 0
		}
		if d.last.CompareAndSwap(last, n) {
			return int(ahead)
		}
	}
}
