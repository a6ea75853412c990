package udp

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func nthPeer(i int) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], 0x0a000000+uint32(i))
	return netip.AddrFrom4(b)
}

// A downgrade ends: larger segments are tried again after a while, sooner for a
// size than for a device, later each time in a row.
func TestDowngradeOfAPeerExpires(t *testing.T) {
	for _, x := range []struct {
		errno syscall.Errno
		limit int
		wait  time.Duration
	}{{syscall.EMSGSIZE, 1399, sizeRetry}, {syscall.EIO, 0, deviceRetry}} {
		synctest.Test(t, func(t *testing.T) {
			var p peers
			addr := nthPeer(1)
			for strike := range 3 {
				p.limit(addr, 1399, x.errno)
				if got := p.segmentLimit(addr, 9000); got != x.limit {
					t.Fatalf("%v: limit %d, want %d", x.errno, got, x.limit)
				}
				wait := x.wait << strike
				time.Sleep(wait - time.Second)
				if got := p.segmentLimit(addr, 9000); got != x.limit {
					t.Fatalf("%v: limit %d before the time", x.errno, got)
				}
				time.Sleep(2 * time.Second)
				if got := p.segmentLimit(addr, 9000); got != 9000 {
					t.Fatalf("%v: limit %d after the time", x.errno, got)
				}
			}
			if !p.accepted(addr, 1400) {
				t.Fatalf("%v: a success above the limit does not end it", x.errno)
			}
			if p.troubled.Load() != 0 {
				t.Fatal("the destination is still remembered")
			}
			p.limit(addr, 1399, x.errno)
			time.Sleep(x.wait + time.Second)
			if got := p.segmentLimit(addr, 9000); got != 9000 {
				t.Fatal("the wait did not start over after the success")
			}
		})
	}
}

// A v4-mapped address is the same destination.
func TestDowngradeCoversMappedAddresses(t *testing.T) {
	var p peers
	p.limit(netip.MustParseAddr("192.0.2.1"), 1000, syscall.EMSGSIZE)
	if got := p.segmentLimit(netip.MustParseAddr("::ffff:192.0.2.1"), 9000); got != 1000 {
		t.Fatalf("limit %d", got)
	}
}

// Smaller refusals tighten a limit that is in force, larger ones do not widen it.
func TestLimitOnlyTightens(t *testing.T) {
	var p peers
	addr := nthPeer(1)
	for _, x := range []struct{ refused, want int }{{1400, 1400}, {1200, 1200}, {1300, 1200}} {
		p.limit(addr, x.refused, syscall.EMSGSIZE)
		if got := p.segmentLimit(addr, 9000); got != x.want {
			t.Fatalf("limit %d, want %d", got, x.want)
		}
	}
}

// When many destinations in a row refuse segmentation altogether, the socket
// stops trying, so that a host whose device cannot do it does not pay a refused
// call per destination. A success in between starts the count over.
func TestSocketGivesUpAfterManyPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p peers
		offs := 0
		for i := range deviceStreak - 1 {
			if p.limit(nthPeer(i), 1400, syscall.EIO) {
				offs++
			}
		}
		p.accepted(nthPeer(5000), 1400)
		for i := range deviceStreak - 1 {
			if p.limit(nthPeer(100+i), 1400, syscall.EIO) {
				offs++
			}
		}
		if offs != 0 || p.segmentLimit(nthPeer(6000), 9000) != 9000 {
			t.Fatal("the socket gave up although a destination accepted segmentation")
		}
		if !p.limit(nthPeer(200), 1400, syscall.EIO) {
			t.Fatal("the socket did not give up")
		}
		if p.segmentLimit(nthPeer(6000), 9000) != 0 {
			t.Fatal("a destination never seen is still segmented")
		}
		time.Sleep(deviceRetry + time.Second)
		if p.segmentLimit(nthPeer(6000), 9000) != 9000 {
			t.Fatal("the socket never tries again")
		}
		if !p.accepted(nthPeer(6000), 1400) {
			t.Fatal("the success is not seen as a recovery")
		}
		if p.offUntil.Load() != 0 {
			t.Fatal("the socket still looks at the clock for every send")
		}
	})
}

// Sizes are a matter of the path, never of the socket.
func TestSizesDoNotSwitchTheSocketOff(t *testing.T) {
	var p peers
	for i := range 10 * deviceStreak {
		if p.limit(nthPeer(i), 1400, syscall.EMSGSIZE) || p.limit(nthPeer(i), 1400, syscall.EINVAL) {
			t.Fatal("the socket gave up for a size")
		}
	}
}

// What is remembered of destinations has a bound.
func TestPeerMemoryIsBounded(t *testing.T) {
	var p peers
	for i := range 5 * maxPeers {
		p.limit(nthPeer(i), 1400, syscall.EMSGSIZE)
		p.refused(nthPeer(i), syscall.ENETUNREACH, 10)
	}
	if len(p.m) > maxPeers || len(p.last) > maxPeers || int(p.troubled.Load()) != len(p.m) {
		t.Fatalf("%d downgrades (%d counted) and %d refusals remembered", len(p.m), p.troubled.Load(), len(p.last))
	}
	last := nthPeer(5*maxPeers - 1)
	if p.segmentLimit(last, 9000) != 1400 {
		t.Fatal("the latest downgrade was not remembered")
	}
	if _, ok := p.lastRefusal(last); !ok {
		t.Fatal("the latest refusal was not remembered")
	}
}
