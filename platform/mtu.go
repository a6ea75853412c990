package platform

import (
	"fmt"
	"net"
	"net/netip"
)

// Header sizes and the largest UDP payloads. An IPv4 datagram is at most 65535
// bytes with its headers (RFC 791); the payload length of an IPv6 packet is
// 16 bits and includes the UDP header (RFC 8200).
const (
	// HeadersV4 is an IPv4 header without options and a UDP header, in bytes.
	HeadersV4 = 20 + 8
	// HeadersV6 is an IPv6 header without extensions and a UDP header.
	HeadersV6 = 40 + 8
	// MaxPayloadV4 is the largest UDP payload over IPv4, in bytes.
	MaxPayloadV4 = 65535 - HeadersV4
	// MaxPayloadV6 is the largest UDP payload over IPv6, in bytes.
	MaxPayloadV6 = 65535 - 8
)

// UDPPayload returns the largest UDP payload that fits an unfragmented packet
// on a link of the given MTU, at most the family's maximum, at least 0.
func UDPPayload(mtu int, v6 bool) int {
	if v6 {
		return min(max(mtu-HeadersV6, 0), MaxPayloadV6)
	}
	return min(max(mtu-HeadersV4, 0), MaxPayloadV4)
}

// LoopbackMTU returns the MTU of the host's loopback interface in bytes:
// usually 65536 on Linux and 16384 on macOS. If there are several, the one
// that has 127.0.0.1 or ::1 counts. A namespace whose loopback is down still
// answers; one without loopback is an error.
func LoopbackMTU() (int, error) {
	ifc, err := loopback()
	if err != nil {
		return 0, fmt.Errorf("loopback mtu: %w", err)
	}
	return ifc.MTU, nil
}

// LoopbackUp reports whether the loopback interface is up. In a new network
// namespace it is not.
func LoopbackUp() (bool, error) {
	ifc, err := loopback()
	if err != nil {
		return false, fmt.Errorf("loopback: %w", err)
	}
	return ifc.Flags&net.FlagUp != 0, nil
}

// LoopbackName returns the name of the loopback interface, "lo" or "lo0".
func LoopbackName() (string, error) {
	ifc, err := loopback()
	if err != nil {
		return "", fmt.Errorf("loopback: %w", err)
	}
	return ifc.Name, nil
}

func loopback() (*net.Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var first *net.Interface
	for i := range all {
		if all[i].Flags&net.FlagLoopback == 0 {
			continue
		}
		if first == nil {
			first = &all[i]
		}
		if hasLoopbackAddr(&all[i]) {
			return &all[i], nil
		}
	}
	if first == nil {
		return nil, fmt.Errorf("no loopback interface among %d", len(all))
	}
	return first, nil
}

func hasLoopbackAddr(ifc *net.Interface) bool {
	addrs, err := ifc.Addrs()
	if err != nil {
		return false // the interface went away meanwhile
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsLoopback() {
			return true
		}
	}
	return false
}

// InterfaceMTU returns the MTU of an interface in bytes.
func InterfaceMTU(name string) (int, error) {
	ifc, err := net.InterfaceByName(name)
	if err != nil {
		return 0, fmt.Errorf("mtu of %s: %w", name, err)
	}
	return ifc.MTU, nil
}

// Route is the way the host would send to an address.
type Route struct {
	// Interface is the name of the outgoing interface. An address of the
	// host itself goes out of the loopback interface.
	Interface string `json:"interface"`
	// MTU is the largest IP packet in bytes: that of the route where it has
	// one of its own (or a learnt path MTU), else that of the interface.
	MTU int `json:"mtu_bytes"`
	// InterfaceMTU is the MTU of the interface in bytes.
	InterfaceMTU int `json:"interface_mtu_bytes"`
}

// RouteTo asks the host's routing table about dst; nothing is sent. Sources:
// rtnetlink on Linux. Elsewhere the interface is found by the local address
// that a connected UDP socket gets, and MTU is that of the interface.
// Errors wrap [ErrNoRoute] if there is none.
func RouteTo(dst netip.Addr) (Route, error) {
	r, err := routeTo(dst.Unmap())
	if err != nil {
		return Route{}, fmt.Errorf("route to %s: %w", dst, err)
	}
	return r, nil
}
