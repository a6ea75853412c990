package udp

import (
	"net"
	"testing"
	"time"

	"golang.org/x/net/ipv4"
)

// loop is a socket that sends to itself. Sending and receiving in turn from one
// goroutine keeps a benchmark free of scheduling and of loss.
type loop struct {
	c   *Conn
	to  *net.UDPAddr
	ms  []ipv4.Message
	buf []byte
	oob []byte
	n   int // datagrams a round
}

func newLoop(tb testing.TB, cfg Config, n, size int) *loop {
	c := open(tb, "udp4", "127.0.0.1:0", cfg)
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		tb.Fatal(err)
	}
	to := c.LocalAddr().(*net.UDPAddr)
	l := &loop{c: c, to: to, ms: messages(8, size), buf: make([]byte, n*size), n: n}
	l.oob = AppendECN(nil, to.AddrPort().Addr(), ECT0)
	if n > 1 {
		l.oob = AppendSegmentSize(l.oob, uint16(size))
	}
	return l
}

func (l *loop) send(tb testing.TB) {
	if _, _, err := l.c.WriteMsgUDP(l.buf, l.oob, l.to); err != nil {
		tb.Fatal(err)
	}
}

func (l *loop) receive(tb testing.TB) {
	for got := 0; got < l.n; {
		k, err := l.c.ReadBatch(l.ms, 0)
		if err != nil {
			tb.Fatal(err)
		}
		got += k
	}
}

// benchmarkBoth reports the time of one datagram's way through send and receive.
func benchmarkBoth(b *testing.B, cfg Config, n int) {
	l := newLoop(b, cfg, n, 1452)
	b.SetBytes(1452)
	b.ReportAllocs()
	before := l.c.Stats()
	b.ResetTimer()
	for i := 0; i < b.N; i += n {
		l.send(b)
		l.receive(b)
	}
	b.StopTimer()
	d := l.c.Stats().Sub(before)
	b.ReportMetric(float64(d.Get(SendCalls)+d.Get(ReceiveCalls))/float64(d.Get(SentDatagrams)), "calls/op")
}

func BenchmarkEverythingOn(b *testing.B) { benchmarkBoth(b, Config{}, 40) }

func BenchmarkWithoutGRO(b *testing.B) { benchmarkBoth(b, Config{GRO: Off}, 40) }

func BenchmarkWithoutGSO(b *testing.B) { benchmarkBoth(b, Config{GSO: Off}, 40) }

func BenchmarkEverythingOff(b *testing.B) { benchmarkBoth(b, combination{}.config(), 40) }

func BenchmarkSingleDatagram(b *testing.B) { benchmarkBoth(b, Config{}, 1) }

// BenchmarkSendPath and BenchmarkReceivePath are the package's own work, with
// the system calls taken out.
func BenchmarkSendPath(b *testing.B) {
	c := fakeConn(b, Config{}, everything(), accepting{}, nil)
	buf := make([]byte, 40*1452)
	oob := AppendSegmentSize(AppendECN(nil, peerA.Addr(), ECT0), 1452)
	to := net.UDPAddrFromAddrPort(peerA)
	b.ReportAllocs()
	for i := 0; i < b.N; i += 40 {
		if _, _, err := c.WriteMsgUDP(buf, oob, to); err != nil {
			b.Fatal(err)
		}
	}
}

// accepting is a kernel that takes everything.
type accepting struct{}

func (accepting) send(ms []outgoing) (accepted, calls, waits int, err error) {
	return len(ms), 1, 0, nil
}
