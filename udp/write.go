package udp

import (
	"bytes"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/net/ipv4"
)

func (c *Conn) newOp(sys system) *sendOp {
	op := &sendOp{
		c:       c,
		calls:   sys.newSender(),
		cut:     make([][]byte, 0, window),
		out:     make([]outgoing, 0, maxMessages),
		control: make([]byte, 0, controlRoom),
	}
	if hook := c.cfg.Hooks.RefuseSend; hook != nil {
		op.calls = &refusingSender{sender: op.calls, hook: hook}
	}
	return op
}

// begin takes working memory for a send.
func (c *Conn) begin() *sendOp { return c.ops.Get().(*sendOp) }

// end gives it back.
func (op *sendOp) end() {
	op.accepted, op.bytes, op.tooLarge = 0, 0, nil
	op.c.ops.Put(op)
}

// WriteTo sends p as one datagram. See WriteMsgUDP for what its errors mean.
func (c *Conn) WriteTo(p []byte, addr net.Addr) (int, error) {
	to, ok := addr.(*net.UDPAddr)
	if !ok {
		return 0, c.writeError(ErrAddress, addr)
	}
	n, _, err := c.WriteMsgUDP(p, nil, to)
	return n, err
}

// WriteMsgUDP sends b to addr with the control data in oob. With a UDP_SEGMENT
// message in oob b is several datagrams of that size, the last of which may be
// shorter; the segment size may be anything, what the kernel cannot take at once
// is sent in pieces, in order. Control data on macOS and elsewhere is passed on
// as it is. The memory is the caller's again on return.
//
// An error is returned for a datagram too large for the path (EMSGSIZE; the
// others in b were still sent), for a socket that is closed (net.ErrClosed) or
// past its deadline, and for a call that can never succeed. Refusals that the
// network or the host may take back are lost packets: they are counted, and n
// is len(b).
func (c *Conn) WriteMsgUDP(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	to, err := c.destination(addr)
	if err != nil {
		return 0, 0, c.writeError(err, addr)
	}
	op := c.begin()
	n, err = op.write(b, oob, to)
	op.end()
	if err != nil {
		return n, 0, c.writeError(err, addr)
	}
	return len(b), len(oob), nil
}

// write sends one buffer and returns how many bytes of it the kernel took.
func (op *sendOp) write(b, oob []byte, to netip.AddrPort) (int, error) {
	kept, segment, err := sendControl(op.control[:0], oob, op.c.ecn)
	if err != nil {
		return 0, err
	}
	op.control = kept
	err = op.buffer(b, segment, outgoing{to: to, control: kept})
	return op.bytes, op.outcome(err)
}

// buffer sends b as datagrams of the given size, as one if that is 0.
func (op *sendOp) buffer(b []byte, segment int, m outgoing) error {
	if len(b) == 0 || segment == 0 || segment >= len(b) {
		op.cut = append(op.cut[:0], b)
		err := op.run(m, op.cut)
		clear(op.cut)
		return err
	}
	for len(b) > 0 {
		op.cut, b = cut(op.cut[:0], b, segment)
		err := op.run(m, op.cut)
		clear(op.cut)
		if err != nil {
			op.c.stats.add(FailedDatagrams, (len(b)+segment-1)/segment)
			return err
		}
	}
	return nil
}

// outcome is the error of a finished call: what ended it, or what was too large.
func (op *sendOp) outcome(err error) error {
	if err != nil {
		return err
	}
	return op.tooLarge
}

// WriteDatagrams sends datagrams to one destination, in order, with the control
// data in oob on each, in as few system calls as the host allows. Runs of equal
// size share aggregates. It returns how many the kernel accepted; errors are
// those of WriteMsgUDP. The memory is the caller's again on return.
func (c *Conn) WriteDatagrams(datagrams [][]byte, oob []byte, to netip.AddrPort) (accepted int, err error) {
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	if err := c.reachable(to.Addr()); err != nil {
		return 0, c.writeError(err, net.UDPAddrFromAddrPort(to))
	}
	op := c.begin()
	defer op.end()
	kept, segment, err := sendControl(op.control[:0], oob, c.ecn)
	op.control = kept
	if err == nil && segment != 0 {
		err = ErrControl // the datagrams are cut already
	}
	if err == nil {
		err = op.outcome(op.run(outgoing{to: to, control: kept}, datagrams))
	}
	if err != nil {
		return op.accepted, c.writeError(err, net.UDPAddrFromAddrPort(to))
	}
	return op.accepted, nil
}

// WriteBatch sends messages to any destinations, in order, several a system
// call. Each message is one datagram in one buffer, or several as in
// WriteMsgUDP; neighbours of equal address and control data share aggregates.
// It sets N of each message to the length of its data. It returns how many
// messages were dealt with, all unless an error ended the call; an EMSGSIZE is
// returned after the rest was sent. flags must be 0.
func (c *Conn) WriteBatch(ms []ipv4.Message, flags int) (int, error) {
	if flags != 0 {
		return 0, c.writeError(ErrFlags, nil)
	}
	op := c.begin()
	defer op.end()
	for i := 0; i < len(ms); {
		n, err := op.messages(ms[i:])
		if err != nil {
			return i, c.writeError(err, ms[i].Addr)
		}
		i += n
	}
	if op.tooLarge != nil {
		return len(ms), c.writeError(op.tooLarge, nil)
	}
	return len(ms), nil
}

// messages plans as many leading messages as there is room for, sends them, and
// returns how many that were. An error of the planning is reported only by the
// call that has the message at its head, after those before it were sent.
func (op *sendOp) messages(ms []ipv4.Message) (done int, err error) {
	op.cut, op.out, op.control = op.cut[:0], op.out[:0], op.control[:0]
	defer func() {
		clear(op.cut)
		clear(op.out)
	}()
	for done < len(ms) && len(op.out) < cap(op.out) && len(op.cut) < cap(op.cut) {
		m, segment, err := op.message(&ms[done])
		switch {
		case done > 0 && (err != nil || segment != 0):
			return done, op.flush(op.out)
		case err != nil:
			return 0, err
		case segment != 0:
			b := ms[0].Buffers[0]
			ms[0].N = len(b)
			return 1, op.buffer(b, segment, m)
		}
		start := len(op.cut)
		n := op.neighbours(ms[done:])
		var planned int
		op.out, planned = op.c.limitsFor(m.to.Addr()).plan(op.out, m, op.cut[start:])
		done += planned
		if planned < n {
			break
		}
	}
	return done, op.flush(op.out)
}

// message reads what a message asks for: where to, with which control data, and
// the segment size, 0 if it is one datagram.
func (op *sendOp) message(msg *ipv4.Message) (m outgoing, segment int, err error) {
	addr, _ := msg.Addr.(*net.UDPAddr)
	if m.to, err = op.c.destination(addr); err != nil {
		return m, 0, err
	}
	if len(msg.Buffers) != 1 {
		return m, 0, ErrBuffers
	}
	at := len(op.control)
	op.control, segment, err = sendControl(op.control, msg.OOB, op.c.ecn)
	m.control = op.control[at:len(op.control):len(op.control)]
	return m, segment, err
}

// neighbours appends the data of the leading messages that go to the address
// and with the control data of the first, and returns how many.
func (op *sendOp) neighbours(ms []ipv4.Message) int {
	n := 0
	for n < len(ms) && len(op.cut) < cap(op.cut) && alike(&ms[0], &ms[n]) {
		b := ms[n].Buffers[0]
		ms[n].N = len(b)
		op.cut = append(op.cut, b)
		n++
	}
	return n
}

func alike(a, b *ipv4.Message) bool {
	if a == b {
		return true
	}
	if len(b.Buffers) != 1 || !bytes.Equal(a.OOB, b.OOB) {
		return false
	}
	x, _ := a.Addr.(*net.UDPAddr)
	y, _ := b.Addr.(*net.UDPAddr)
	return x == y || x != nil && y != nil && x.Port == y.Port && x.Zone == y.Zone && x.IP.Equal(y.IP)
}

// destination returns the address in the form that the rest of the package
// uses: IPv4 never as v4-mapped IPv6.
func (c *Conn) destination(a *net.UDPAddr) (netip.AddrPort, error) {
	if a == nil {
		return netip.AddrPort{}, ErrAddress
	}
	ap := a.AddrPort()
	addr := ap.Addr().Unmap()
	if !addr.IsValid() && len(a.IP) == 0 { // this host, as in package net
		addr = netip.IPv4Unspecified()
		if c.v6 {
			addr = netip.IPv6Unspecified()
		}
	}
	return netip.AddrPortFrom(addr, ap.Port()), c.reachable(addr)
}

// reachable tells destinations that this socket can never send to.
func (c *Conn) reachable(addr netip.Addr) error {
	switch {
	case !addr.IsValid():
		return ErrAddress
	case !c.v6 && !addr.Is4():
		return syscall.EAFNOSUPPORT
	}
	return nil
}

// refusingSender puts a test's refusals before the kernel's. Like sendmmsg, it
// gives the answer to a message only when that is at the head of a call.
type refusingSender struct {
	sender
	hook   func(Attempt) syscall.Errno
	passed int           // leading messages that the hook has let through
	answer syscall.Errno // what it said to the one after them
}

func (s *refusingSender) send(ms []outgoing) (accepted, calls, waits int, err error) {
	for s.answer == 0 && s.passed < len(ms) {
		m := &ms[s.passed]
		if s.answer = s.hook(Attempt{Datagrams: len(m.data), Bytes: m.bytes, Segment: m.segment}); s.answer == 0 {
			s.passed++
		}
	}
	if s.passed == 0 {
		errno := s.answer
		s.answer = 0
		return 0, 1, 0, errno
	}
	accepted, calls, waits, err = s.sender.send(ms[:s.passed])
	s.passed -= accepted
	if err != nil {
		s.passed, s.answer = 0, 0 // what follows may be planned anew
	}
	return accepted, calls, waits, err
}
