package udp

import (
	"net"
	"net/netip"
	"strconv"
	"time"
)

// sourcesKept bounds each of the two generations of a source cache.
const sourcesKept = 2048

// sources turns sender addresses into the *net.UDPAddr that callers want,
// without an allocation for a sender seen lately. Callers must not change them.
// It belongs to the reader, which serialises its use.
type sources struct {
	last       source
	addr       *net.UDPAddr // of last
	young, old map[source]*net.UDPAddr
}

func (s *sources) get(from source) *net.UDPAddr {
	if s.addr != nil && from == s.last {
		return s.addr
	}
	addr, ok := s.young[from]
	if !ok {
		if addr, ok = s.old[from]; !ok {
			addr = from.udpAddr()
		}
		s.keep(from, addr)
	}
	s.last, s.addr = from, addr
	return addr
}

// keep remembers an address; when a generation is full, the one before it is
// forgotten, so that a flood of forged senders cannot grow the cache.
func (s *sources) keep(from source, addr *net.UDPAddr) {
	if s.young == nil || len(s.young) >= sourcesKept {
		s.old, s.young = s.young, make(map[source]*net.UDPAddr)
	}
	s.young[from] = addr
}

// udpAddr returns a new address, an IPv4 one in its 4-byte form.
func (s source) udpAddr() *net.UDPAddr {
	addr := netip.AddrFrom16(s.addr).Unmap()
	a := &net.UDPAddr{IP: addr.AsSlice(), Port: int(s.port)}
	if s.scope != 0 && addr.IsLinkLocalUnicast() && addr.Is6() {
		a.Zone = zoneName(s.scope)
	}
	return a
}

// zoneName returns the interface name for a scope, its number if it has none.
func zoneName(scope uint32) string {
	if ifi, err := net.InterfaceByIndex(int(scope)); err == nil {
		return ifi.Name
	}
	return strconv.Itoa(int(scope))
}

// scopeOf is the inverse of zoneName; 0 for a zone that does not exist.
func scopeOf(zone string) uint32 {
	if zone == "" {
		return 0
	}
	if ifi, err := net.InterfaceByName(zone); err == nil {
		return uint32(ifi.Index)
	}
	n, err := strconv.ParseUint(zone, 10, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

// zoneLife is how long a zone's number is believed: interfaces come and go.
const zoneLife = time.Minute

// zones remembers the number of the zone used last. It belongs to one sender.
type zones struct {
	name  string
	id    uint32
	until time.Time
}

func (z *zones) scope(name string) uint32 {
	if now := time.Now(); name != z.name || now.After(z.until) {
		z.name, z.id, z.until = name, scopeOf(name), now.Add(zoneLife)
	}
	return z.id
}
