//go:build amd64 || arm64

package bpf

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"felix/internal/testkit"
	"felix/platform"
)

func TestGROSegmentsAreExact(t *testing.T) {
	p := open(t, Options{Mode: ModeFull})
	from := newSocket(t, unix.AF_INET)
	to, id := watched(t, p)
	to.set(t, unix.SOL_UDP, unix.UDP_GRO, 1)

	want := GRO{PerMerged: Histogram{Slots: make([]uint64, 8)}}
	b := make([]byte, 1<<16)
	for _, c := range []struct{ length, segment, segments int }{
		{10000, 1000, 10},
		{10001, 1000, 11}, // the last one holds a byte
		{4000, 2000, 2},
		{64 * 900, 900, 64},
	} {
		for range 25 {
			if _, err := unix.SendmsgN(from.fd, b[:c.length], segmented(uint16(c.segment)), to.addr, 0); err != nil {
				t.Fatal(err)
			}
			to.readable(t)
			n, _, _, _, err := unix.Recvmsg(to.fd, b, make([]byte, 64), 0)
			if n == c.segment && !platform.Kernel().AtLeast(6, 0) {
				testkit.Missing(t, "a kernel whose loopback leaves segmented sends in one piece (5.10 does not)")
			}
			if err != nil || n != c.length {
				t.Fatalf("received %d, %v, want %d in one", n, err, c.length)
			}
		}
		want.Merged += 25
		want.Segments += uint64(25 * c.segments)
		want.Bytes += uint64(25 * c.length)
		want.PerMerged.Slots[slotOf(uint64(c.segments), 8)] += 25
	}
	// Datagrams that are not merged do not pass, nor does TCP.
	from.send(t, to, 50, 1200)
	to.drain(t)
	streamKilobytes(t, 512)

	s := snapshot(t, p)
	if g := s.GRO; g.Merged != want.Merged || g.Segments != want.Segments || g.Bytes != want.Bytes || g.Extra() != want.Segments-want.Merged {
		t.Errorf("counted %+v, want %+v", g, want)
	}
	for i, n := range s.GRO.PerMerged.Slots {
		if n != want.PerMerged.Slots[i] {
			t.Errorf("slot %d holds %d, want %d", i, n, want.PerMerged.Slots[i])
		}
	}
	if r := s.Receives.Socket(id.Cookie); r.Receives != 150 {
		t.Errorf("%d receives, want 150", r.Receives)
	}
}

// streamKilobytes sends over a TCP connection of this process to itself, in writes
// of 16 segments, which the kernel hands over in one piece. Each is read before
// the next one, and fits into the buffers.
func streamKilobytes(t *testing.T, n int) {
	t.Helper()
	l, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(l)
	if err := errors.Join(unix.Bind(l, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(l, 1)); err != nil {
		t.Fatal(err)
	}
	addr, err := unix.Getsockname(l)
	if err != nil {
		t.Fatal(err)
	}
	a, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(a)
	if err := unix.SetsockoptInt(a, unix.IPPROTO_TCP, unix.TCP_MAXSEG, 1000); err != nil {
		t.Fatal(err)
	}
	if err := unix.Connect(a, addr); err != nil {
		t.Fatal(err)
	}
	c, _, err := unix.Accept(l)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(c)
	b := make([]byte, 16<<10)
	for range n / 16 {
		sent, err := unix.Write(a, b)
		if err != nil {
			t.Fatal(err)
		}
		for got := 0; got < sent; {
			k, err := unix.Read(c, b)
			if err != nil || k == 0 {
				t.Fatalf("read %d: %v", k, err)
			}
			got += k
		}
	}
}
