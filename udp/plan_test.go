package udp

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The most datagrams of one size in one message: 64 KiB and 128 segments,
// whichever comes first.
func TestPlanKeepsTheKernelLimits(t *testing.T) {
	for _, x := range []struct{ size, most int }{
		{1200, 54}, {1252, 52}, {1320, 49}, {1452, 45}, {1472, 44}, {4096, 15}, {500, 128}, {100, 128},
	} {
		k := &kernel{}
		c := fakeConn(t, Config{}, everything(), k, nil)
		want := batch(repeat(300, x.size)...)
		if n, err := c.WriteDatagrams(want, nil, peerA); n != 300 || err != nil {
			t.Fatalf("size %d: %d, %v", x.size, n, err)
		}
		wantData(t, k.datagrams(), want)
		if most := slices.Max(k.shape()); most != x.most {
			t.Errorf("size %d: %d segments in a message, want %d", x.size, most, x.most)
		}
		if s := c.Stats(); s.Refusals() != 0 {
			t.Errorf("size %d: %d refusals", x.size, s.Refusals())
		}
	}
}

// A message of one datagram has no segment option: some devices refuse even
// that, and handshake replies would never leave.
func TestPlanOneDatagramHasNoSegmentOption(t *testing.T) {
	for _, x := range []struct {
		sizes    []int
		segments []int
	}{
		{[]int{1200}, []int{0}},
		{[]int{600}, []int{0}},
		{[]int{1200, 1200}, []int{1200}},
		{[]int{1200, 600}, []int{1200}},
		{[]int{600, 1200}, []int{0, 0}},
		{[]int{1200, 1200, 0, 5}, []int{1200, 0, 0}},
		{append(repeat(54, 1200), 1200), []int{1200, 0}},
		{append(repeat(54, 1200), 700), []int{1200}},
		{append(repeat(54, 1200), 800), []int{1200, 0}},
	} {
		k := &kernel{}
		c := fakeConn(t, Config{}, everything(), k, nil)
		if _, err := c.WriteDatagrams(batch(x.sizes...), nil, peerA); err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, m := range k.accepted {
			got = append(got, m.segment)
		}
		if !slices.Equal(got, x.segments) {
			t.Errorf("%v: segment sizes %v, want %v", x.sizes, got, x.segments)
		}
	}
}

// For every segment size and any batch: nothing exceeds the limits, order and
// bytes are kept, only the last datagram of a message is shorter, and a message
// is as full as it may be.
func TestPlanProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		to := rapid.SampledFrom([]netip.Addr{peerA.Addr(), peer6.Addr(), netip.MustParseAddr("::ffff:192.0.2.1")}).Draw(t, "to")
		lim := limits{
			segments: rapid.SampledFrom([]int{1, 2, 64, 128}).Draw(t, "segments"),
			bytes:    maxPayload(to),
			segment:  rapid.IntRange(0, maxPayload(to)).Draw(t, "segment"),
		}
		sizes := rapid.SliceOfN(rapid.OneOf(
			rapid.SampledFrom([]int{0, 1, 100, 1200, 1452, 8952, 16336, MaxPayloadV4, MaxPayloadV6}),
			rapid.IntRange(0, MaxPayloadV6),
		), 1, 40).Draw(t, "sizes")
		var ds [][]byte
		space := make([]byte, MaxPayloadV6)
		for _, size := range sizes {
			for range rapid.IntRange(1, 80).Draw(t, "run") {
				ds = append(ds, space[:size])
			}
		}
		room := rapid.IntRange(1, maxMessages).Draw(t, "room")
		var got []outgoing
		for rest := ds; len(rest) > 0; {
			ms, n := lim.plan(make([]outgoing, 0, room), outgoing{}, rest)
			if n == 0 {
				t.Fatal("no progress")
			}
			got, rest = append(got, ms...), rest[n:]
		}
		checkPlan(t, lim, got, ds)
	})
}

func checkPlan(t *rapid.T, lim limits, got []outgoing, want [][]byte) {
	at := 0
	for i, m := range got {
		n, bytes := len(m.data), 0
		for j, d := range m.data {
			if at+j >= len(want) || len(d) != len(want[at+j]) {
				t.Fatalf("message %d: datagram %d is not number %d of the input", i, j, at+j)
			}
			bytes += len(d)
			if n > 1 && j < n-1 && len(d) != m.segment {
				t.Fatalf("message %d: datagram %d has %d bytes, segment size %d", i, j, len(d), m.segment)
			}
		}
		last := len(m.data[n-1])
		switch {
		case bytes != m.bytes:
			t.Fatalf("message %d: %d bytes, says %d", i, bytes, m.bytes)
		case n == 1 && m.segment != 0:
			t.Fatalf("message %d: a segment size for one datagram", i)
		case n > 1 && (n > lim.segments || bytes > lim.bytes || m.segment > lim.segment):
			t.Fatalf("message %d: %d x %d = %d bytes, limits %+v", i, n, m.segment, bytes, lim)
		case n > 1 && (last == 0 || last > m.segment):
			t.Fatalf("message %d: a tail of %d bytes behind segments of %d", i, last, m.segment)
		}
		at += n
		if at < len(want) && lim.couldTake(m, len(want[at])) {
			t.Fatalf("message %d: %d x %d had room for %d more bytes", i, n, m.segment, len(want[at]))
		}
	}
	if at != len(want) {
		t.Fatalf("%d datagrams planned, want %d", at, len(want))
	}
}

// couldTake reports whether a message had room for a further datagram.
func (l limits) couldTake(m outgoing, next int) bool {
	size := len(m.data[0])
	return size > 0 && size <= l.segment && next > 0 && next <= size &&
		len(m.data[len(m.data)-1]) == size && len(m.data) < l.segments && m.bytes+next <= l.bytes
}

// Every segment size there is, over a buffer of many segments and a tail: the
// messages hold exactly the buffer, in order, within the limits.
func TestPlanOfABufferAtEverySize(t *testing.T) {
	data := make([]byte, 3*MaxPayloadV4)
	lim := limits{segments: 128, bytes: MaxPayloadV4, segment: MaxPayloadV4}
	pieces := make([][]byte, 0, window)
	ms := make([]outgoing, 0, maxMessages)
	for size := 1; size <= MaxPayloadV4; size++ {
		whole := data[:min(len(data), 600*size+size/2)]
		at := 0
		for rest := whole; len(rest) > 0; {
			pieces, rest = cut(pieces[:0], rest, size)
			for left := pieces; len(left) > 0; {
				var n int
				ms, n = lim.plan(ms[:0], outgoing{}, left)
				left = left[n:]
				for _, m := range ms {
					at += checkMessage(t, lim, m, size, whole[at:])
				}
			}
		}
		if at != len(whole) {
			t.Fatalf("size %d: %d bytes of %d", size, at, len(whole))
		}
	}
}

// checkMessage checks one message against the front of the buffer it was cut
// from, and returns its bytes.
func checkMessage(t *testing.T, lim limits, m outgoing, size int, buf []byte) int {
	t.Helper()
	bytes := 0
	for i, d := range m.data {
		if &d[0] != &buf[bytes] {
			t.Fatalf("size %d: datagram %d of a message is out of order", size, i)
		}
		if bytes += len(d); len(d) != size && bytes != len(buf) {
			t.Fatalf("size %d: a datagram of %d bytes before the end", size, len(d))
		}
	}
	if n := len(m.data); n > lim.segments || bytes > lim.bytes || (n > 1) != (m.segment == size) {
		t.Fatalf("size %d: %d datagrams, %d bytes, segment size %d", size, n, bytes, m.segment)
	}
	return bytes
}
