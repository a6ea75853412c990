//go:build linux || darwin

package udp

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// putSockaddr writes to as an address of the socket's family, an IPv4 one as
// v4-mapped IPv6 if that is v6, and returns its length.
func putSockaddr(sa *unix.RawSockaddrInet6, v6 bool, to netip.AddrPort, z *zones) uint32 {
	if !v6 {
		sa4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(sa))
		*sa4 = unix.RawSockaddrInet4{Addr: to.Addr().As4()}
		putFamily((*unix.RawSockaddr)(unsafe.Pointer(sa)), unix.AF_INET, unix.SizeofSockaddrInet4)
		putPort(&sa4.Port, to.Port())
		return unix.SizeofSockaddrInet4
	}
	*sa = unix.RawSockaddrInet6{Addr: to.Addr().As16()}
	putFamily((*unix.RawSockaddr)(unsafe.Pointer(sa)), unix.AF_INET6, unix.SizeofSockaddrInet6)
	putPort(&sa.Port, to.Port())
	if zone := to.Addr().Zone(); zone != "" {
		sa.Scope_id = z.scope(zone)
	}
	return unix.SizeofSockaddrInet6
}

// sourceOf reads an address that the kernel wrote.
func sourceOf(sa *unix.RawSockaddrInet6) source {
	if sa.Family == unix.AF_INET {
		sa4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(sa))
		s := source{port: getPort(&sa4.Port)}
		s.addr[10], s.addr[11] = 0xff, 0xff
		copy(s.addr[12:], sa4.Addr[:])
		return s
	}
	return source{addr: sa.Addr, scope: sa.Scope_id, port: getPort(&sa.Port)}
}

// Ports are in network byte order in memory.

func putPort(p *uint16, port uint16) {
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(p))[:], port)
}

func getPort(p *uint16) uint16 { return binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(p))[:]) }
