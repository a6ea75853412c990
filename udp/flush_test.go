package udp

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
)

func segmented(m *outgoing) bool { return m.segment != 0 }

// writeSegmented sends datagrams the way quic-go does: one buffer and a segment
// size.
func writeSegmented(c *Conn, ds [][]byte, to netip.AddrPort) error {
	var b []byte
	for _, d := range ds {
		b = append(b, d...)
	}
	_, _, err := c.WriteMsgUDP(b, AppendSegmentSize(nil, uint16(len(ds[0]))), net.UDPAddrFromAddrPort(to))
	return err
}

// A device without checksum offload refuses segmentation when sending, although
// the option could be set: the same datagrams leave one by one in the same call,
// and later sends to that destination are not segmented.
func TestRefusedOffloadIsResentUnsegmented(t *testing.T) {
	k := &kernel{refuse: func(m *outgoing) syscall.Errno {
		if segmented(m) {
			return syscall.EIO
		}
		return 0
	}}
	var notices []Notice
	c := fakeConn(t, Config{Notice: func(n Notice) { notices = append(notices, n) }}, everything(), k, nil)
	want := batch(append(repeat(10, 1200), 700)...)
	if err := writeSegmented(c, want, peerA); err != nil {
		t.Fatal(err)
	}
	wantData(t, k.datagrams(), want)
	wantCounters(t, c.Stats(), map[Counter]uint64{
		RefusedEIO: 1, PeerDowngrades: 1, ResentDatagrams: 11, SentDatagrams: 11, LostDatagrams: 0,
	})
	for range 3 {
		if err := writeSegmented(c, want, peerA); err != nil {
			t.Fatal(err)
		}
	}
	if s := c.Stats(); s.Get(RefusedEIO) != 1 || s.Get(SentDatagrams) != 44 {
		t.Errorf("later sends tried segmentation again: %v", s.Map())
	}
	if len(notices) != 1 || notices[0].Kind != SegmentationRefused || notices[0].Errno != syscall.EIO {
		t.Errorf("notices: %+v", notices)
	}
}

// Every refused aggregate of a call is resent, not only the first, and none is
// resent twice.
func TestAllAggregatesOfACallAreResent(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.EINVAL, syscall.EMSGSIZE} {
		k := &kernel{refuse: func(m *outgoing) syscall.Errno {
			if segmented(m) {
				return errno
			}
			return 0
		}}
		c := fakeConn(t, Config{}, everything(), k, nil)
		want := batch(append(repeat(200, 1400), 3, 900, 900, 20)...)
		if n, err := c.WriteDatagrams(want, nil, peer6); n != len(want) || err != nil {
			t.Fatalf("%v: %d, %v", errno, n, err)
		}
		wantData(t, k.datagrams(), want)
		if slices.Max(k.shape()) != 1 {
			t.Errorf("%v: aggregates accepted: %v", errno, k.shape())
		}
	}
}

// A destination behind a small MTU loses segmentation above that size only, and
// the others keep it.
func TestSmallMTUOfOnePeerDoesNotCostTheOthers(t *testing.T) {
	k := &kernel{refuse: func(m *outgoing) syscall.Errno {
		if segmented(m) && m.to == peerA && m.segment > 1300 {
			return syscall.EMSGSIZE
		}
		return 0
	}}
	c := fakeConn(t, Config{}, everything(), k, nil)
	big, small := batch(repeat(20, 1400)...), batch(repeat(20, 1300)...)
	for _, x := range []struct {
		ds    [][]byte
		to    netip.AddrPort
		shape []int
	}{
		{big, peerA, repeat(20, 1)},
		{big, peerA, repeat(20, 1)},
		{small, peerA, []int{20}},
		{big, peerB, []int{20}},
	} {
		k.forget()
		if n, err := c.WriteDatagrams(x.ds, nil, x.to); n != 20 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		wantData(t, k.datagrams(), x.ds)
		if !slices.Equal(k.shape(), x.shape) {
			t.Errorf("%d bytes to %v: messages of %v datagrams, want %v", len(x.ds[0]), x.to, k.shape(), x.shape)
		}
	}
	wantCounters(t, c.Stats(), map[Counter]uint64{RefusedEMSGSIZE: 1, PeerDowngrades: 1, TooLargeDatagrams: 0})
}

// An older kernel takes 64 segments and answers EINVAL beyond: the batch leaves
// in messages of 64 and the limit is kept.
func TestOldSegmentLimitIsLearnt(t *testing.T) {
	k := &kernel{segments: 64}
	c := fakeConn(t, Config{}, everything(), k, nil)
	want := batch(repeat(300, 100)...)
	for range 2 {
		k.forget()
		if n, err := c.WriteDatagrams(want, nil, peerA); n != 300 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		wantData(t, k.datagrams(), want)
	}
	if got, want := k.shape(), []int{64, 64, 64, 64, 44}; !slices.Equal(got, want) {
		t.Errorf("the second call sent messages of %v datagrams, want %v", got, want)
	}
	wantCounters(t, c.Stats(), map[Counter]uint64{RefusedEINVAL: 1, SegmentLimitDowngrades: 1, PeerDowngrades: 0})
	if n := c.Capabilities().MaxSegments; n != 64 {
		t.Errorf("limit %d", n)
	}
}

// The hook that switches the clamp off makes the kernel refuse the batch for its
// size; everything arrives all the same, and no destination is blamed.
func TestWithoutClampTheBatchIsCutAfterTheRefusal(t *testing.T) {
	k := &kernel{}
	c := fakeConn(t, Config{Hooks: Hooks{NoClamp: true}}, everything(), k, nil)
	for _, sizes := range [][]int{repeat(10, 16336), repeat(300, 100), repeat(500, 1452)} {
		k.forget()
		want := batch(sizes...)
		if n, err := c.WriteDatagrams(want, nil, peerA); n != len(want) || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		wantData(t, k.datagrams(), want)
		if slices.Max(k.shape()) == 1 {
			t.Errorf("%d x %d: sent one by one", len(sizes), sizes[0])
		}
	}
	s := c.Stats()
	if s.Get(RefusedEMSGSIZE) == 0 || s.Get(RefusedEINVAL) == 0 {
		t.Errorf("nothing was refused: %v", s.Map())
	}
	wantCounters(t, s, map[Counter]uint64{PeerDowngrades: 0, SegmentLimitDowngrades: 0, TooLargeDatagrams: 0})
}

// sendmmsg stops at a message it cannot send and loses the reason; the others
// arrive, the bad one is counted once, and the caller hears of it.
func TestBatchGoesOnBehindABadMessage(t *testing.T) {
	k := &kernel{}
	c := fakeConn(t, Config{}, everything(), k, nil)
	ds := batch(1, 70000, 1, 1)
	n, err := c.WriteDatagrams(ds, nil, peerA)
	if n != 3 || !errors.Is(err, syscall.EMSGSIZE) {
		t.Fatalf("%d, %v", n, err)
	}
	wantData(t, k.datagrams(), [][]byte{ds[0], ds[2], ds[3]})
	wantCounters(t, c.Stats(), map[Counter]uint64{
		RefusedEMSGSIZE: 1, TooLargeDatagrams: 1, SentDatagrams: 3, PeerDowngrades: 0,
	})
	if k.calls > 4 {
		t.Errorf("%d system calls for 4 messages", k.calls)
	}
}

// A refusal that may be another packet's or passes by itself: the message is
// tried once more and the rest of the batch is not affected.
func TestPassingRefusalsAreRetriedOnce(t *testing.T) {
	for _, errno := range []syscall.Errno{
		syscall.EPERM, syscall.EINTR, syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH,
	} {
		for _, bad := range []int{0, 1} { // alone at the head, and as a later message
			var refusals int
			ds := batch(10, 20, 30)
			k := &kernel{refuse: func(m *outgoing) syscall.Errno {
				if m.bytes == len(ds[bad]) && refusals == 0 {
					refusals++
					return errno
				}
				return 0
			}}
			if bad == 1 {
				// As the fake kernel loses the errno of a later message, it must
				// refuse that one again when it comes first.
				inner := k.refuse
				seen := 0
				k.refuse = func(m *outgoing) syscall.Errno {
					if m.bytes == len(ds[bad]) {
						if seen++; seen <= 2 {
							return errno
						}
						return 0
					}
					return inner(m)
				}
			}
			c := fakeConn(t, Config{}, everything(), k, nil)
			if n, err := c.WriteDatagrams(ds, nil, peerA); n != 3 || err != nil {
				t.Fatalf("%v: %d, %v", errno, n, err)
			}
			wantData(t, k.datagrams(), ds)
			wantCounters(t, c.Stats(), map[Counter]uint64{
				refusedCounter(errno): 1, SendRetries: 1, LostDatagrams: 0,
			})
		}
	}
}

// What the network refuses for good is a lost packet: no error, no endless
// retry, the others leave.
func TestLastingRefusalsAreLosses(t *testing.T) {
	for _, errno := range []syscall.Errno{
		syscall.ENOBUFS, syscall.ENOMEM, syscall.EPERM, syscall.EACCES, syscall.ENETUNREACH,
		syscall.EHOSTUNREACH, syscall.ECONNREFUSED, syscall.EINTR, syscall.ENETDOWN, syscall.EIO, syscall.EINVAL,
	} {
		k := &kernel{refuse: func(m *outgoing) syscall.Errno {
			if m.to == peerA {
				return errno
			}
			return 0
		}}
		c := fakeConn(t, Config{}, everything(), k, nil)
		if n, _, err := c.WriteMsgUDP(make([]byte, 100), nil, net.UDPAddrFromAddrPort(peerA)); n != 100 || err != nil {
			t.Errorf("%v: %d, %v", errno, n, err)
		}
		if err := writeSegmented(c, batch(repeat(5, 1200)...), peerA); err != nil {
			t.Errorf("%v: %v", errno, err)
		}
		if k.calls > 10 {
			t.Errorf("%v: %d system calls for 6 datagrams that cannot leave", errno, k.calls)
		}
		wantCounters(t, c.Stats(), map[Counter]uint64{LostDatagrams: 6, LostBytes: 6100, SentDatagrams: 0})
		r, ok := c.LastRefusal(peerA.Addr())
		if !ok || r.Errno != errno {
			t.Errorf("%v: last refusal %+v, %v", errno, r, ok)
		}
		if _, ok := c.LastRefusal(peerB.Addr()); ok {
			t.Errorf("%v: a refusal is remembered for a destination that had none", errno)
		}
		if n, err := c.WriteDatagrams(batch(repeat(5, 1200)...), nil, peerB); n != 5 || err != nil {
			t.Errorf("%v: the other destination got %d, %v", errno, n, err)
		}
		if !slices.Equal(k.shape(), []int{5}) {
			t.Errorf("%v: the other destination is not segmented: %v", errno, k.shape())
		}
	}
}

// EINVAL and EIO on the single datagrams too mean that segmentation was not the
// cause, such as a source address that is gone: it stays on.
func TestRefusalOfSingleDatagramsDoesNotDowngrade(t *testing.T) {
	var gone atomic.Bool
	gone.Store(true)
	k := &kernel{refuse: func(m *outgoing) syscall.Errno {
		if gone.Load() {
			return syscall.EINVAL
		}
		return 0
	}}
	c := fakeConn(t, Config{}, everything(), k, nil)
	ds := batch(repeat(30, 1200)...)
	if n, err := c.WriteDatagrams(ds, nil, peerA); n != 0 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if k.calls > 3 {
		t.Errorf("%d system calls to learn that nothing leaves", k.calls)
	}
	gone.Store(false)
	if n, err := c.WriteDatagrams(ds, nil, peerA); n != 30 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if !slices.Equal(k.shape(), []int{30}) {
		t.Errorf("segmentation is off after the cause has gone: %v", k.shape())
	}
}

// Path MTU discovery needs to hear that a datagram was too large.
func TestTooLargeDatagramIsReported(t *testing.T) {
	k := &kernel{refuse: func(m *outgoing) syscall.Errno {
		if len(m.data[0]) > 1252 {
			return syscall.EMSGSIZE
		}
		return 0
	}}
	c := fakeConn(t, Config{}, everything(), k, nil)
	_, _, err := c.WriteMsgUDP(make([]byte, 1400), nil, net.UDPAddrFromAddrPort(peerA))
	var op *net.OpError
	if !errors.Is(err, syscall.EMSGSIZE) || !errors.As(err, &op) || op.Addr.String() != peerA.String() {
		t.Fatalf("%v", err)
	}
	// The tail of a segmented send fits and leaves; the call says what did not.
	ds := batch(append(repeat(40, 1400), 800)...)
	k.calls = 0
	if err := writeSegmented(c, ds, peerA); !errors.Is(err, syscall.EMSGSIZE) {
		t.Fatalf("%v", err)
	}
	wantData(t, k.datagrams(), ds[40:])
	wantCounters(t, c.Stats(), map[Counter]uint64{TooLargeDatagrams: 41, SentDatagrams: 1, LostDatagrams: 0})
	if k.calls > 4 {
		t.Errorf("%d system calls to learn one thing", k.calls)
	}
}

// Errors that say the call itself is wrong, or the socket closed, end it, and
// what was not sent is counted.
func TestOtherErrorsEndTheCall(t *testing.T) {
	for _, cause := range []error{syscall.EBADF, syscall.EDESTADDRREQ, net.ErrClosed} {
		k := &failing{after: 1, err: cause}
		c := fakeConn(t, Config{}, everything(), k, nil)
		n, err := c.WriteDatagrams(batch(10, 20, 30, 40), nil, peerA)
		if n != 1 || !errors.Is(err, cause) {
			t.Errorf("%v: %d, %v", cause, n, err)
		}
		wantCounters(t, c.Stats(), map[Counter]uint64{SentDatagrams: 1, FailedDatagrams: 3})
	}
}

// failing accepts some messages and then fails.
type failing struct {
	after int
	err   error
}

func (f *failing) send(ms []outgoing) (accepted, calls, waits int, err error) {
	if f.after > 0 {
		f.after--
		return 1, 1, 0, nil
	}
	return 0, 1, 0, f.err
}

// Whatever the kernel answers: each datagram given is sent, lost, reported as
// too large or failed, and the counters say so.
func TestEveryDatagramIsAccountedFor(t *testing.T) {
	answers := []syscall.Errno{0, 0, 0, syscall.EMSGSIZE, syscall.EINVAL, syscall.EIO, syscall.ENOBUFS, syscall.EPERM, syscall.ENETUNREACH}
	seed := uint32(1)
	k := &kernel{refuse: func(*outgoing) syscall.Errno {
		seed = seed*1664525 + 1013904223
		return answers[int(seed>>16)%len(answers)]
	}}
	c := fakeConn(t, Config{}, everything(), k, nil)
	given := 0
	for i := range 500 {
		ds := batch(append(repeat(i%200+1, 100+i), i%90)...)
		given += len(ds)
		c.WriteDatagrams(ds, nil, []netip.AddrPort{peerA, peerB, peer6}[i%3])
	}
	s := c.Stats()
	sum := s.Get(SentDatagrams) + s.Get(LostDatagrams) + s.Get(TooLargeDatagrams) + s.Get(FailedDatagrams)
	if int(sum) != given {
		t.Errorf("%d datagrams given, %d accounted for: %v", given, sum, s.Map())
	}
	if got := len(k.datagrams()); uint64(got) != s.Get(SentDatagrams) {
		t.Errorf("%d left, %d counted", got, s.Get(SentDatagrams))
	}
}

// The refusals of Config.Hooks look like the kernel's.
func TestHookRefusals(t *testing.T) {
	var eperm, eio atomic.Int32
	k := &kernel{}
	cfg := Config{Hooks: Hooks{RefuseSend: func(a Attempt) syscall.Errno {
		switch {
		case a.Segment != 0 && eio.Add(1) == 1:
			return syscall.EIO
		case a.Segment == 0 && a.Bytes == 30 && eperm.Add(1) == 1:
			return syscall.EPERM
		}
		return 0
	}}}
	c := fakeConn(t, cfg, everything(), k, nil)
	ds := batch(40, 40, 10, 30, 20)
	if n, err := c.WriteDatagrams(ds, nil, peerA); n != 5 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	wantData(t, k.datagrams(), ds)
	wantCounters(t, c.Stats(), map[Counter]uint64{RefusedEIO: 1, RefusedEPERM: 1, SendRetries: 1, LostDatagrams: 0})
}
