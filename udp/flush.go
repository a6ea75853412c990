package udp

import (
	"net/netip"
	"syscall"
)

// level says how far the planning of a message has backed off.
type level uint8

const (
	asPlanned level = iota
	clamped         // within the limits of every kernel
	single          // one datagram a message
)

// sendOp is the working memory of one send call. Its slices keep their capacity
// between calls, so that a send allocates nothing.
type sendOp struct {
	c     *Conn
	calls sender

	cut     [][]byte   // datagrams being planned, cap window
	out     []outgoing // messages planned, cap maxMessages
	control []byte     // control data without segment options

	accepted int   // datagrams accepted so far
	bytes    int   // their payload
	tooLarge error // the first genuine EMSGSIZE
}

// run plans the datagrams for the destination and control data in m and sends
// them in order. It returns an error that ends the call; refusals that are the
// network's do not.
func (op *sendOp) run(m outgoing, datagrams [][]byte) error {
	for len(datagrams) > 0 {
		var n int
		op.out, n = op.c.limitsFor(m.to.Addr()).plan(op.out[:0], m, datagrams[:min(len(datagrams), window)])
		err := op.flush(op.out)
		clear(op.out)
		if err != nil {
			op.c.stats.add(FailedDatagrams, len(datagrams)-n)
			return err
		}
		datagrams = datagrams[n:]
	}
	return nil
}

// flush hands messages to the kernel until each is accepted, given up or
// reported.
func (op *sendOp) flush(ms []outgoing) error {
	for len(ms) > 0 {
		n, calls, waits, err := op.calls.send(ms)
		op.c.stats.add(SendCalls, calls)
		op.c.stats.add(SendWaits, waits)
		op.accept(ms[:n])
		ms = ms[n:]
		if err == nil {
			continue
		}
		if ms, err = op.refused(ms, err); err != nil {
			return err
		}
	}
	return nil
}

func (op *sendOp) accept(ms []outgoing) {
	var datagrams, bytes, aggregates, segments int
	for i := range ms {
		m := &ms[i]
		datagrams += len(m.data)
		bytes += m.bytes
		if m.segment == 0 {
			continue
		}
		aggregates++
		segments += len(m.data)
		if op.c.peers.accepted(m.to.Addr(), m.segment) {
			op.c.stats.add(Recoveries, 1)
		}
	}
	op.accepted += datagrams
	op.bytes += bytes
	s := &op.c.stats
	s.add(SentDatagrams, datagrams)
	s.add(SentBytes, bytes)
	s.add(SentAggregates, aggregates)
	s.add(SentSegments, segments)
}

// refused decides what becomes of the first message, which the kernel did not
// take, and returns the messages that are still to be sent. An error ends the
// call; the datagrams left over then count as failed.
func (op *sendOp) refused(ms []outgoing, err error) ([]outgoing, error) {
	m := &ms[0]
	errno := errnoOf(err)
	verdict := judge(errno, m)
	if verdict != ended {
		op.c.stats.add(refusedCounter(errno), 1)
		op.c.peers.refused(m.to.Addr(), errno, m.bytes)
	}
	switch verdict {
	case smaller:
		return op.backOff(ms, errno), nil
	case again:
		op.c.stats.add(SendRetries, 1)
		m.retried = true
		return ms, nil
	case tooLarge:
		if op.tooLarge == nil {
			op.tooLarge = errno
		}
		return op.drop(ms, TooLargeDatagrams, true), nil
	case blameless:
		op.c.peers.forget(m.to.Addr())
		return op.drop(ms, LostDatagrams, true), nil
	case lost:
		return op.drop(ms, LostDatagrams, false), nil
	}
	for i := range ms {
		op.c.stats.add(FailedDatagrams, len(ms[i].data))
	}
	return nil, err
}

// drop gives up the first message, and with alike set also those after it to
// which the same answer is due: single datagrams of its size to its destination.
func (op *sendOp) drop(ms []outgoing, why Counter, alike bool) []outgoing {
	first := ms[0]
	for {
		op.c.stats.add(why, len(ms[0].data))
		if why == LostDatagrams {
			op.c.stats.add(LostBytes, ms[0].bytes)
		}
		ms = ms[1:]
		if !alike || len(ms) == 0 || ms[0].segment != 0 || ms[0].to != first.to || ms[0].bytes != first.bytes {
			return ms
		}
	}
}

// backOff plans the refused aggregate at the head of ms anew with smaller
// limits, and those behind it that meet the same limits, and notes the limits
// for the sends to come. It allocates: refusals are rare.
func (op *sendOp) backOff(ms []outgoing, errno syscall.Errno) []outgoing {
	m := ms[0]
	to := m.to.Addr()
	lim := plain
	m.level = single
	m.suspect = errno != syscall.EMSGSIZE
	switch {
	case ms[0].level == asPlanned && errno == syscall.EMSGSIZE && m.bytes > maxPayload(to):
		lim, m.level = op.c.sane(to), clamped
	case ms[0].level == asPlanned && errno == syscall.EINVAL && len(m.data) > oldSegments:
		op.c.lowerSegments(len(m.data))
		lim, m.level = op.c.sane(to), clamped
		lim.segments = oldSegments
	default:
		op.c.downgrade(to, m.segment, errno)
	}
	op.c.stats.add(ResentDatagrams, len(m.data))
	rest := lim.planAll(nil, m)
	for _, m := range ms[1:] {
		if now := op.c.limitsFor(m.to.Addr()); m.segment > now.segment || len(m.data) > now.segments {
			rest = now.planAll(rest, m)
		} else {
			rest = append(rest, m)
		}
	}
	return rest
}

// planAll appends the messages for all datagrams of m to dst.
func (l limits) planAll(dst []outgoing, m outgoing) []outgoing {
	planned, _ := l.plan(make([]outgoing, 0, len(m.data)), m, m.data)
	return append(dst, planned...)
}

// limitsFor returns the limits of an aggregate for a destination.
func (c *Conn) limitsFor(to netip.Addr) limits {
	if !c.gso {
		return plain
	}
	lim := c.sane(to)
	if c.cfg.Hooks.NoClamp {
		lim.bytes, lim.segments = maxIovecs*maxRead, maxIovecs
	}
	return lim
}

// sane returns the limits by the facts, without regard to Hooks.
func (c *Conn) sane(to netip.Addr) limits {
	most := maxPayload(to)
	return limits{
		segments: int(c.segments.Load()),
		bytes:    most,
		segment:  c.peers.segmentLimit(to, most),
	}
}

// lowerSegments notes that n segments were too many.
func (c *Conn) lowerSegments(n int) {
	if now := c.segments.Load(); n <= int(now) && c.segments.CompareAndSwap(now, oldSegments) {
		c.stats.add(SegmentLimitDowngrades, 1)
	}
}

// downgrade notes that segments of the given size were refused for a
// destination, and tells the operator at the first time.
func (c *Conn) downgrade(to netip.Addr, segment int, errno syscall.Errno) {
	c.stats.add(PeerDowngrades, 1)
	if c.peers.limit(to, segment-1, errno) {
		c.stats.add(SocketDowngrades, 1)
	}
	if c.cfg.Notice != nil && c.noticeOnce.CompareAndSwap(false, true) {
		c.cfg.Notice(segmentationNotice(to, segment, errno))
	}
}
