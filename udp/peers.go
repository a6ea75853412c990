package udp

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// maxPeers bounds the destinations remembered as troubled, some 100 KB.
	maxPeers = 1024
	// sizeRetry is how long a destination keeps a segment limit before larger
	// segments are tried again: routes and MTUs change, and a try costs one
	// refused call.
	sizeRetry = 10 * time.Second
	// deviceRetry is the same for a device without checksum offload, which
	// rarely changes.
	deviceRetry = 60 * time.Second
	// maxRetry bounds the doubling of both.
	maxRetry = 10 * time.Minute
	// deviceStreak is how many destinations in a row must refuse segmentation
	// altogether, none accepting it in between, before the socket stops trying.
	deviceStreak = 16
)

// peers remembers, per destination address, how large a segment may be, and for
// the socket whether to segment at all. Destinations that never refused
// anything cost nothing, and while there are only such no lock is taken.
type peers struct {
	troubled atomic.Int32 // entries in m
	streak   atomic.Int32 // destinations that refused since the last success
	offUntil atomic.Int64 // time in ns until which the socket does not segment
	probing  atomic.Bool  // offUntil has been set and no success seen since

	mu   sync.RWMutex
	m    map[netip.Addr]*peer
	last map[netip.Addr]Refusal
	offs int // times the socket was switched off
}

type peer struct {
	segment int // largest segment, 0: none
	until   time.Time
	strikes int
}

// Refusal is the latest refusal of a send to a destination.
type Refusal struct {
	Errno syscall.Errno
	At    time.Time
	Bytes int // payload of the refused message
}

// segmentLimit returns the largest segment for addr, at most most.
func (p *peers) segmentLimit(addr netip.Addr, most int) int {
	if off := p.offUntil.Load(); off != 0 && time.Now().UnixNano() < off {
		return 0
	}
	if p.troubled.Load() == 0 {
		return most
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	e := p.m[addr.Unmap()]
	if e == nil || time.Now().After(e.until) {
		return most
	}
	return min(e.segment, most)
}

// limit notes that addr refused segments larger than segment (0: any) and
// reports whether the socket as a whole gives up segmentation because of it.
func (p *peers) limit(addr netip.Addr, segment int, errno syscall.Errno) (socketOff bool) {
	wait := sizeRetry
	if errno == syscall.EIO {
		wait, segment = deviceRetry, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	addr = addr.Unmap()
	now := time.Now()
	e := p.m[addr]
	if e == nil {
		e = p.insert(addr)
	}
	inForce := now.Before(e.until)
	if inForce {
		segment = min(e.segment, segment)
	}
	e.segment = segment
	e.until = now.Add(min(wait<<min(e.strikes, 10), maxRetry))
	e.strikes++
	if errno != syscall.EIO || inForce || p.streak.Add(1) < deviceStreak {
		return false
	}
	p.streak.Store(0)
	p.offUntil.Store(now.Add(min(deviceRetry<<min(p.offs, 10), maxRetry)).UnixNano())
	p.probing.Store(true)
	p.offs++
	return true
}

// insert makes an entry, at the expense of another one when there is no room:
// an expired one if a few tries find one. It is called with mu held.
func (p *peers) insert(addr netip.Addr) *peer {
	if p.m == nil {
		p.m = make(map[netip.Addr]*peer)
	}
	if len(p.m) >= maxPeers {
		evict(p.m, func(e *peer) bool { return time.Now().After(e.until) })
	}
	e := &peer{}
	p.m[addr] = e
	p.troubled.Store(int32(len(p.m)))
	return e
}

// evict removes one entry, preferably one for which dispensable holds.
func evict[V any](m map[netip.Addr]V, dispensable func(V) bool) {
	var victim netip.Addr
	tries := 0
	for addr, e := range m {
		victim = addr
		if tries++; tries > 8 || dispensable(e) {
			break
		}
	}
	delete(m, victim)
}

// accepted notes that addr took an aggregate of the given segment size and
// reports whether that ends a downgrade.
func (p *peers) accepted(addr netip.Addr, segment int) (recovered bool) {
	if p.streak.Load() != 0 {
		p.streak.Store(0)
	}
	if p.probing.Load() && p.probing.CompareAndSwap(true, false) {
		p.mu.Lock()
		p.offs = 0
		p.offUntil.Store(0)
		p.mu.Unlock()
		recovered = true
	}
	if p.troubled.Load() == 0 {
		return recovered
	}
	addr = addr.Unmap()
	p.mu.RLock()
	e := p.m[addr]
	ends := e != nil && segment > e.segment
	p.mu.RUnlock()
	if !ends {
		return recovered
	}
	return p.forget(addr) || recovered
}

// forget removes what is known of addr.
func (p *peers) forget(addr netip.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	addr = addr.Unmap()
	_, ok := p.m[addr]
	delete(p.m, addr)
	p.troubled.Store(int32(len(p.m)))
	return ok
}

// refused remembers the latest refusal of a destination.
func (p *peers) refused(addr netip.Addr, errno syscall.Errno, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	addr = addr.Unmap()
	if p.last == nil {
		p.last = make(map[netip.Addr]Refusal)
	}
	if _, ok := p.last[addr]; !ok && len(p.last) >= maxPeers {
		evict(p.last, func(r Refusal) bool { return time.Since(r.At) > maxRetry })
	}
	p.last[addr] = Refusal{Errno: errno, At: time.Now(), Bytes: bytes}
}

// lastRefusal returns the latest refusal of a destination.
func (p *peers) lastRefusal(addr netip.Addr) (Refusal, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.last[addr.Unmap()]
	return r, ok
}
