package transport

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// narrowPath is a way to a server that loses datagrams above a size without a word, as a tunnel without ICMP does.
type narrowPath struct {
	front *net.UDPConn
	limit atomic.Int64
	wg    sync.WaitGroup
}

// newNarrowPath forwards between one client and the server.
func newNarrowPath(t *testing.T, server net.Addr) *narrowPath {
	t.Helper()
	front, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	back, err := net.DialUDP("udp4", nil, server.(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	p := &narrowPath{front: front}
	p.limit.Store(1 << 16)
	var client atomic.Pointer[net.UDPAddr]
	p.wg.Go(func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := front.ReadFromUDP(buf)
			if err != nil {
				return
			}
			client.Store(from)
			if int64(n) <= p.limit.Load() {
				_, _ = back.Write(buf[:n]) // a path may lose datagrams
			}
		}
	})
	p.wg.Go(func() {
		buf := make([]byte, 1<<16)
		for {
			n, err := back.Read(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if to := client.Load(); err == nil && to != nil && int64(n) <= p.limit.Load() {
				_, _ = front.WriteToUDP(buf[:n], to) // a path may lose datagrams
			}
		}
	})
	t.Cleanup(func() {
		front.Close()
		back.Close()
		p.wg.Wait()
	})
	return p
}

func (p *narrowPath) addr() net.Addr { return p.front.LocalAddr() }

// anywhere makes an endpoint treat loopback like any other path.
func anywhere(c *Config) { c.InitialPacketSize = MinPacketSize }

// TestBlackHoleAtStart: a path that loses datagrams above 1252 bytes is no obstacle.
func TestBlackHoleAtStart(t *testing.T) {
	l := listen(t, anywhere)
	echo(t, l)
	path := newNarrowPath(t, l.Addr())
	path.limit.Store(1252)
	start := time.Now()
	c := dial(t, dialer(t, anywhere), path.addr())
	if took := time.Since(start); took > prompt {
		t.Errorf("connecting took %v", took)
	}
	if err := roundTrip(testContext(t), c, string(make([]byte, 100<<10))); err != nil {
		t.Errorf("transfer: %v", err)
	}
}

// TestBlackHoleLater: the path narrows below the packets in use. The connection is given up with a reason instead of
// hanging for ever, and a new one works.
func TestBlackHoleLater(t *testing.T) {
	l := listen(t, func(c *Config) { anywhere(c); c.KeepAlive = 100 * time.Millisecond })
	echo(t, l)
	path := newNarrowPath(t, l.Addr())
	d := dialer(t, anywhere)
	d.conns.interval, d.conns.patience = 50*time.Millisecond, 700*time.Millisecond
	c := dial(t, d, path.addr())
	eventually(t, "larger packets to be in use", func() bool {
		before := c.Stats()
		if err := roundTrip(testContext(t), c, string(make([]byte, 64<<10))); err != nil {
			t.Fatal(err)
		}
		after := c.Stats()
		return (after.BytesSent-before.BytesSent)/(after.PacketsSent-before.PacketsSent) > 1260
	})
	path.limit.Store(1252)
	s, err := c.OpenStream(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = s.Write(make([]byte, 64<<10))
	}
	checkClosed(t, err, ApplicationError{Code: CodePathUnusable, Reason: "packets of the size in use no longer arrive; connect again"})
	if n := d.conns.pathsLost.Load(); n != 1 {
		t.Errorf("%d paths counted as lost, want 1", n)
	}
	if err := roundTrip(testContext(t), dial(t, d, path.addr()), string(make([]byte, 100<<10))); err != nil {
		t.Errorf("transfer on a new connection: %v", err)
	}
}

func TestPathState(t *testing.T) {
	const patience = 8 * time.Second
	type step struct {
		after time.Duration
		c     pathCounters
		lost  bool
	}
	base := pathCounters{rtt: 100, sent: 1000, received: 10}
	big := base.sent + pathEvidence
	for name, steps := range map[string][]step{
		"nothing acknowledged": {{0, base, false}, {4 * time.Second, pathCounters{100, 4000, 11}, false}, {8 * time.Second, pathCounters{100, big, 12}, true}},
		"too early":            {{0, base, false}, {7 * time.Second, pathCounters{100, big, 12}, false}},
		"acknowledged":         {{0, base, false}, {4 * time.Second, pathCounters{101, 3000, 11}, false}, {8 * time.Second, pathCounters{101, big + 2000, 12}, false}},
		"nothing sent":         {{0, base, false}, {8 * time.Second, pathCounters{100, 1000, 12}, false}, {9 * time.Second, pathCounters{100, big, 13}, false}},
		"keep-alives only":     {{0, base, false}, {60 * time.Second, pathCounters{100, 1300, 20}, false}},
		"peer silent":          {{0, base, false}, {20 * time.Second, pathCounters{100, big, 10}, false}},
	} {
		var p pathState
		start := time.Unix(1000, 0)
		for i, s := range steps {
			if got := p.lost(start.Add(s.after), patience, s.c); got != s.lost {
				t.Errorf("%s: step %d: lost %v, want %v", name, i, got, s.lost)
			}
		}
	}
}
