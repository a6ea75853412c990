package netns

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
)

// Addresses of the two ends of a Pair, on the interface Cable of each.
var (
	A4 = netip.MustParseAddr("10.98.0.1")
	B4 = netip.MustParseAddr("10.98.0.2")
	A6 = netip.MustParseAddr("fd98::1")
	B6 = netip.MustParseAddr("fd98::2")
)

// Cable is the name of the interface that joins a Pair, on both ends.
const Cable = "cable0"

// Pair makes two namespaces joined by a cable with an MTU of 1500, with an IPv4
// and an IPv6 address on either end.
func Pair(t testing.TB) (a, b *Namespace) {
	t.Helper()
	a, b = New(t), New(t)
	veth := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: Cable},
		PeerName:  Cable, PeerNamespace: netlink.NsFd(b.handle),
	}
	if err := a.links.LinkAdd(veth); err != nil {
		t.Fatalf("join two namespaces: %v", err)
	}
	a.address(t, A4, 24)
	a.address(t, A6, 64)
	b.address(t, B4, 24)
	b.address(t, B6, 64)
	a.Up(t, Cable)
	b.Up(t, Cable)
	return a, b
}

// AddAddress gives the cable a further address.
func (n *Namespace) AddAddress(t testing.TB, addr netip.Prefix) {
	t.Helper()
	n.address(t, addr.Addr(), addr.Bits())
}

// RemoveAddress takes one away again.
func (n *Namespace) RemoveAddress(t testing.TB, addr netip.Prefix) {
	t.Helper()
	if err := n.links.AddrDel(n.link(t, Cable), netlinkAddr(addr.Addr(), addr.Bits())); err != nil {
		t.Fatalf("remove %v: %v", addr, err)
	}
}

func (n *Namespace) address(t testing.TB, addr netip.Addr, bits int) {
	t.Helper()
	if err := n.links.AddrReplace(n.link(t, Cable), netlinkAddr(addr, bits)); err != nil {
		t.Fatalf("add %v: %v", addr, err)
	}
}

// noDAD is IFA_F_NODAD: an IPv6 address is usable at once.
const noDAD = 0x02

func netlinkAddr(addr netip.Addr, bits int) *netlink.Addr {
	a := &netlink.Addr{IPNet: &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(bits, addr.BitLen())}}
	if addr.Is6() {
		a.Flags = noDAD
	}
	return a
}

// AddRoute sends a destination through the cable, with an MTU of its own unless
// mtu is 0.
func (n *Namespace) AddRoute(t testing.TB, dst netip.Prefix, mtu int) {
	t.Helper()
	r := &netlink.Route{
		LinkIndex: n.link(t, Cable).Attrs().Index,
		Dst:       &net.IPNet{IP: dst.Addr().AsSlice(), Mask: net.CIDRMask(dst.Bits(), dst.Addr().BitLen())},
		MTU:       mtu,
	}
	if err := n.links.RouteReplace(r); err != nil {
		t.Fatalf("add a route to %v: %v", dst, err)
	}
}

// Throttle limits what the end sends: rate in bits a second, burst and queue in
// bytes. It replaces an earlier limit.
func (n *Namespace) Throttle(t testing.TB, rate uint64, burst, queue uint32) {
	t.Helper()
	l := n.link(t, Cable)
	q := &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: l.Attrs().Index,
			Handle:    netlink.MakeHandle(1, 0),
			Parent:    netlink.HANDLE_ROOT,
		},
		Rate:   rate / 8,
		Limit:  queue,
		Buffer: netlink.Xmittime(rate/8, burst),
	}
	if err := n.links.QdiscReplace(q); err != nil {
		t.Fatalf("throttle to %d bit/s: %v", rate, err)
	}
}
