package platform

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

func routeTo(dst netip.Addr) (Route, error) {
	if !dst.IsValid() {
		return Route{}, errors.New("not an address")
	}
	reply, err := askRoute(routeRequest(dst))
	if err != nil {
		return Route{}, err
	}
	index, mtu, err := parseRoute(reply)
	if err != nil {
		return Route{}, err
	}
	ifc, err := net.InterfaceByIndex(index)
	if err != nil {
		return Route{}, err
	}
	r := Route{Interface: ifc.Name, MTU: ifc.MTU, InterfaceMTU: ifc.MTU}
	if mtu > 0 && mtu < r.MTU {
		r.MTU = mtu
	}
	return r, nil
}

// routeRequest builds an RTM_GETROUTE message with one attribute, RTA_DST
// (rtnetlink(7)). Fields are in host byte order.
func routeRequest(dst netip.Addr) []byte {
	addr := dst.AsSlice()
	family := byte(unix.AF_INET)
	if dst.Is6() {
		family = unix.AF_INET6
	}
	attr := unix.SizeofRtAttr + len(addr)
	b := make([]byte, unix.SizeofNlMsghdr+unix.SizeofRtMsg+attr)
	binary.NativeEndian.PutUint32(b[0:], uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], unix.RTM_GETROUTE)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST)
	binary.NativeEndian.PutUint32(b[8:], 1) // sequence number
	rt := b[unix.SizeofNlMsghdr:]
	rt[0] = family
	rt[1] = byte(8 * len(addr)) // destination prefix length in bits
	a := rt[unix.SizeofRtMsg:]
	binary.NativeEndian.PutUint16(a[0:], uint16(attr))
	binary.NativeEndian.PutUint16(a[2:], unix.RTA_DST)
	copy(a[unix.SizeofRtAttr:], addr)
	return b
}

func askRoute(request []byte) ([]byte, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	defer closeProbe(fd)
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	buf := make([]byte, 16<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("netlink: %w", err)
		}
		return buf[:n], nil
	}
}

// parseRoute takes the outgoing interface's index and the route's own MTU (0:
// none) from the answer.
func parseRoute(reply []byte) (index, mtu int, err error) {
	msgs, err := syscall.ParseNetlinkMessage(reply)
	if err != nil {
		return 0, 0, fmt.Errorf("netlink: %w", err)
	}
	for i := range msgs {
		switch msgs[i].Header.Type {
		case unix.NLMSG_ERROR:
			return 0, 0, netlinkError(msgs[i].Data)
		case unix.RTM_NEWROUTE:
			return routeAttrs(&msgs[i])
		}
	}
	return 0, 0, errors.New("netlink: no route in the answer")
}

// netlinkError reads the kernel's refusal. For a route of the types blackhole
// and prohibit it is EINVAL and EACCES (fib_props in net/ipv4/fib_semantics.c);
// the request itself is well-formed, so they mean nothing else here.
func netlinkError(data []byte) error {
	if len(data) < 4 {
		return errors.New("netlink: short error message")
	}
	errno := unix.Errno(-int32(binary.NativeEndian.Uint32(data)))
	switch errno {
	case unix.ENETUNREACH, unix.EHOSTUNREACH, unix.ESRCH, unix.EINVAL, unix.EACCES:
		return fmt.Errorf("%w: %w", ErrNoRoute, errno)
	}
	return fmt.Errorf("netlink: %w", errno)
}

func routeAttrs(m *syscall.NetlinkMessage) (index, mtu int, err error) {
	attrs, err := syscall.ParseNetlinkRouteAttr(m)
	if err != nil {
		return 0, 0, fmt.Errorf("netlink: %w", err)
	}
	for _, a := range attrs {
		switch a.Attr.Type {
		case unix.RTA_OIF:
			if len(a.Value) >= 4 {
				index = int(binary.NativeEndian.Uint32(a.Value))
			}
		case unix.RTA_METRICS:
			mtu = metricMTU(a.Value)
		}
	}
	if index == 0 {
		return 0, 0, errors.New("netlink: route without interface")
	}
	return index, mtu, nil
}

// metricMTU finds RTAX_MTU among the attributes nested in RTA_METRICS.
func metricMTU(b []byte) int {
	for len(b) >= unix.SizeofRtAttr {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.SizeofRtAttr || size > len(b) {
			return 0
		}
		if binary.NativeEndian.Uint16(b[2:]) == unix.RTAX_MTU && size >= unix.SizeofRtAttr+4 {
			return int(binary.NativeEndian.Uint32(b[unix.SizeofRtAttr:]))
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return 0
}
