//go:build !linux

package platform

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// routeTo connects a UDP socket, which sends nothing, and looks for the
// interface that has the local address the system chose.
func routeTo(dst netip.Addr) (Route, error) {
	if !dst.IsValid() {
		return Route{}, errors.New("not an address")
	}
	if dst.IsLoopback() {
		ifc, err := loopback()
		if err != nil {
			return Route{}, err
		}
		return Route{Interface: ifc.Name, MTU: ifc.MTU, InterfaceMTU: ifc.MTU}, nil
	}
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(dst, 9)))
	if err != nil {
		return Route{}, fmt.Errorf("%w: %w", ErrNoRoute, err)
	}
	local := c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	if err := c.Close(); err != nil {
		return Route{}, err
	}
	if local == dst.WithZone("") { // an address of this host
		return routeTo(netip.IPv6Loopback())
	}
	return interfaceOf(local)
}

func interfaceOf(addr netip.Addr) (Route, error) {
	all, err := net.Interfaces()
	if err != nil {
		return Route{}, err
	}
	for _, ifc := range all {
		addrs, err := ifc.Addrs()
		if err != nil {
			continue // it went away meanwhile
		}
		for _, a := range addrs {
			n, ok := a.(*net.IPNet)
			if !ok {
				continue
			}
			if ip, ok := netip.AddrFromSlice(n.IP); ok && ip.Unmap() == addr.WithZone("") {
				return Route{Interface: ifc.Name, MTU: ifc.MTU, InterfaceMTU: ifc.MTU}, nil
			}
		}
	}
	return Route{}, fmt.Errorf("no interface has the local address %s", addr)
}
