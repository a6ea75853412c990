package udp

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/net/ipv4"
)

const (
	// coalescedSlots is how many messages one receive call takes where each may
	// hold many datagrams, plainSlots where each holds one. Only the pages that
	// data was ever written to take up memory.
	coalescedSlots = 16
	plainSlots     = 32

	// errorPause is how long a reader waits after the second error in a row,
	// doubling up to maxErrorPause, so that a lasting error costs no processor.
	errorPause    = time.Millisecond
	maxErrorPause = 100 * time.Millisecond
)

// reader takes messages from the kernel and hands out their datagrams. What one
// call has no room for is kept for the next.
type reader struct {
	c     *Conn
	calls receiver
	slots []incoming

	mu      sync.Mutex
	have    int // slots filled by the last receive
	at      int // the next of them to look at
	current pieces
	control []byte // of every datagram in current
	from    *net.UDPAddr
	sources sources
	errors  int // receive errors in a row
}

func (r *reader) init(c *Conn, sys system) {
	n := 1
	switch {
	case !c.caps.RecvMMsg.Active:
	case c.caps.GRO.Active:
		n = coalescedSlots
	default:
		n = plainSlots
	}
	data := make([]byte, n*maxRead)
	control := make([]byte, n*controlRoom)
	r.c = c
	r.slots = make([]incoming, n)
	for i := range r.slots {
		r.slots[i].buf = data[i*maxRead : (i+1)*maxRead : (i+1)*maxRead]
		r.slots[i].control = control[i*controlRoom : (i+1)*controlRoom : (i+1)*controlRoom]
	}
	r.calls = sys.newReceiver(r.slots)
}

// ReadBatch waits until a datagram is there and fills ms from the front with
// the datagrams that are there, one each, as far as they go. It sets N, NN,
// Addr and Flags of each. Buffers[0] must hold the largest datagram that the
// caller accepts: a larger one is dropped and counted, never cut off. OOB gets
// the control data (ECN codepoint, packet information), the same for every
// datagram of a coalesced message; if it has no room for all, Flags has the
// system's flag for that (MSG_CTRUNC). Addr is a *net.UDPAddr that the caller
// must not change. flags must be 0.
//
// The only errors are a closed socket (net.ErrClosed) and a deadline that has
// passed (os.ErrDeadlineExceeded); what the network reports is counted and
// passed over.
func (c *Conn) ReadBatch(ms []ipv4.Message, flags int) (int, error) {
	if flags != 0 {
		return 0, c.readError(ErrFlags)
	}
	if len(ms) == 0 {
		return 0, nil
	}
	r := &c.reader
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if n := r.handOut(ms); n > 0 {
			return n, nil
		}
		if err := r.receive(); err != nil {
			return 0, c.readError(err)
		}
	}
}

// handOut fills ms with datagrams that are here already.
func (r *reader) handOut(ms []ipv4.Message) int {
	n, bytes, oversize := 0, 0, 0
	for n < len(ms) {
		d, ok := r.current.next()
		if !ok {
			if !r.nextSlot() {
				break
			}
			continue
		}
		m := &ms[n]
		if len(m.Buffers) == 0 || len(m.Buffers[0]) < len(d) {
			oversize++
			continue
		}
		m.N = copy(m.Buffers[0], d)
		m.NN, m.Flags = copyControl(m.OOB, r.control)
		m.Addr = r.from
		bytes += m.N
		n++
	}
	s := &r.c.stats
	s.add(ReceivedDatagrams, n)
	s.add(ReceivedBytes, bytes)
	s.add(DroppedOversize, oversize)
	return n
}

// nextSlot makes the next received message current and reports whether there
// was one that can be trusted.
func (r *reader) nextSlot() bool {
	for r.at < r.have {
		s := &r.slots[r.at]
		r.at++
		if r.open(s) {
			return true
		}
	}
	return false
}

// open makes a message current unless it must be dropped.
func (r *reader) open(s *incoming) bool {
	stats := &r.c.stats
	if s.truncated {
		stats.add(DroppedTruncated, 1)
		return false
	}
	if s.ctrunc {
		stats.add(DroppedControl, 1)
		return false
	}
	info, err := receivedControl(s.control[:s.nn], r.c.ecn)
	if err != nil {
		stats.add(DroppedControl, 1)
		return false
	}
	if info.hasDrops {
		stats.add(OverflowDrops, r.c.drops.advance(info.drops))
	}
	p, ok := split(s.buf[:s.n], info.stride)
	if !ok {
		stats.add(DroppedStride, 1)
		return false
	}
	if n := p.count(); n > 1 {
		stats.add(CoalescedReads, 1)
		stats.add(CoalescedPieces, n)
	}
	r.current, r.control, r.from = p, info.kept, r.sources.get(s.from)
	return true
}

// receive waits for messages. An error that is not the end is passed over.
func (r *reader) receive() error {
	n, calls, empty, err := r.calls.receive()
	r.have, r.at = n, 0
	r.c.stats.add(ReceiveCalls, calls)
	r.c.stats.add(ReceiveEmptyCalls, empty)
	if n > 0 {
		r.errors = 0
		return nil
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	r.c.stats.add(ReceiveErrors, 1)
	return r.pause()
}

// pause keeps an error that repeats itself from spinning. The first in a row
// costs nothing: an ICMP error is reported once, between good datagrams.
func (r *reader) pause() error {
	r.errors++
	if r.errors == 1 {
		return nil
	}
	t := time.NewTimer(min(errorPause<<min(r.errors-2, 10), maxErrorPause))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-r.c.closed:
		return net.ErrClosed
	}
}

// readError gives an error of a read the form that package net gives it.
func (c *Conn) readError(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return err
	}
	return &net.OpError{Op: "read", Net: "udp", Source: c.LocalAddr(), Err: err}
}

// ReadFrom reads one datagram into p. One that p has no room for is dropped and
// counted. The address is a *net.UDPAddr that the caller must not change. For
// errors see ReadBatch.
func (c *Conn) ReadFrom(p []byte) (int, net.Addr, error) {
	n, _, _, addr, err := c.ReadMsgUDP(p, nil)
	if err != nil {
		return 0, nil, err
	}
	return n, addr, nil
}

// ReadMsgUDP reads one datagram into b and its control data into oob; see
// ReadBatch.
func (c *Conn) ReadMsgUDP(b, oob []byte) (n, oobn, flags int, addr *net.UDPAddr, err error) {
	bufs := [1][]byte{b}
	ms := [1]ipv4.Message{{Buffers: bufs[:], OOB: oob}}
	if _, err := c.ReadBatch(ms[:], 0); err != nil {
		return 0, 0, 0, nil, err
	}
	return ms[0].N, ms[0].NN, ms[0].Flags, ms[0].Addr.(*net.UDPAddr), nil
}
