package platform

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"felix/internal/testkit"
)

var loopbackV4 = netip.MustParseAddr("127.0.0.1")

// inNewNamespace runs f on a thread of its own in a new network namespace.
func inNewNamespace(t *testing.T, f func()) {
	t.Helper()
	testkit.RequireRoot(t)
	onOwnThread(func() {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Errorf("unshare: %v", err)
			return
		}
		f()
	})
}

// onOwnThread runs f on a thread that ends with it and is not the process's
// first, whose view of /proc is the process's.
func onOwnThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		defer runtime.UnlockOSThread()
		onOwnThread(f) // while this goroutine keeps the first thread to itself
	}()
	<-done
}

// TestFactsFollowTheThreadsNamespace: counters, routes and settings are those
// of the calling thread, not of the process's first one.
func TestFactsFollowTheThreadsNamespace(t *testing.T) {
	inNewNamespace(t, func() {
		if got := InitialNetNamespace(); got != No {
			t.Errorf("a new namespace is the host's first one: %v", got)
		}
		if _, err := RouteTo(netip.MustParseAddr("192.0.2.1")); !errors.Is(err, ErrNoRoute) {
			t.Errorf("route from an empty namespace: %v", err)
		}
		// Loopback is down: nothing can be sent, so the limit is unknown.
		if n, f := probeSegmentLimit(UDPSegment(), sendSegments); n != 64 || f.Answer != Unknown {
			t.Errorf("segment limit with loopback down: %d, %+v", n, f)
		}
		if up, err := LoopbackUp(); up || err != nil {
			t.Errorf("loopback of a new namespace is up: %v, %v", up, err)
		}
		linkUp(t, "lo")
		if up, err := LoopbackUp(); !up || err != nil {
			t.Errorf("loopback is up: %v, %v", up, err)
		}
		before, err := UDPSnmp()
		if err != nil {
			t.Error(err)
			return
		}
		if before != (UDPStats{}) {
			t.Errorf("a new namespace has counted already: %+v", before)
		}
		if err := sendSegmentsTo(unix.AF_INET, &unix.SockaddrInet4{Addr: loopbackV4.As4()}, 3); err != nil {
			t.Error(err)
			return
		}
		after, err := UDPSnmp()
		if err != nil {
			t.Error(err)
			return
		}
		if d := after.Sub(before); d.V4.OutDatagrams == 0 || d.V6 != (UDPCounters{}) {
			t.Errorf("one send was counted as %+v", d)
		}
	})
}

// linkUp is for the goroutine of inNewNamespace, where FailNow does not work.
func linkUp(t *testing.T, name string) netlink.Link {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkSetUp(l)
	}
	if err != nil {
		t.Errorf("link %s: %v", name, err)
		runtime.Goexit()
	}
	return l
}

func TestRouteMTU(t *testing.T) {
	inNewNamespace(t, func() {
		linkUp(t, "lo")
		pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "ve0", MTU: 9000}, PeerName: "ve1"}
		if err := netlink.LinkAdd(pair); err != nil {
			t.Error(err)
			return
		}
		linkUp(t, "ve1")
		l := linkUp(t, "ve0")
		addr, err := netlink.ParseAddr("192.0.2.1/24")
		if err != nil {
			t.Error(err)
			return
		}
		if err := netlink.AddrAdd(l, addr); err != nil {
			t.Error(err)
			return
		}
		for _, r := range []*netlink.Route{
			{Dst: cidr(198, 51, 100, 0), MTU: 1280},
			{Dst: cidr(203, 0, 113, 0), MTU: 60000}, // a route cannot widen its device
		} {
			r.LinkIndex, r.Gw = l.Attrs().Index, addr.IP.Mask(addr.Mask)
			r.Gw[3] = 254
			if err := netlink.RouteAdd(r); err != nil {
				t.Error(err)
				return
			}
		}
		if err := netlink.RouteAdd(&netlink.Route{Dst: cidr(233, 252, 0, 0), Type: unix.RTN_BLACKHOLE}); err != nil {
			t.Error(err)
			return
		}
		for dst, want := range map[string]Route{
			"192.0.2.77":   {Interface: "ve0", MTU: 9000, InterfaceMTU: 9000},
			"198.51.100.9": {Interface: "ve0", MTU: 1280, InterfaceMTU: 9000},
			"203.0.113.9":  {Interface: "ve0", MTU: 9000, InterfaceMTU: 9000},
			"192.0.2.1":    {Interface: "lo", MTU: 65536, InterfaceMTU: 65536},
		} {
			if got, err := RouteTo(netip.MustParseAddr(dst)); err != nil || got != want {
				t.Errorf("%s: %+v, %v, want %+v", dst, got, err, want)
			}
		}
		for _, dst := range []string{"233.252.0.1", "10.0.0.1", "2001:db8::1"} {
			if r, err := RouteTo(netip.MustParseAddr(dst)); !errors.Is(err, ErrNoRoute) {
				t.Errorf("%s: %+v, %v, want no route", dst, r, err)
			}
		}
	})
}

func TestRouteReplies(t *testing.T) {
	attr := func(kind uint16, value []byte) []byte {
		b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
		b = binary.NativeEndian.AppendUint16(b, kind)
		b = append(b, value...)
		return append(b, make([]byte, -len(b)&3)...)
	}
	u32 := func(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }
	message := func(kind uint16, body []byte) []byte {
		b := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
		b = binary.NativeEndian.AppendUint16(b, kind)
		return append(append(b, make([]byte, 10)...), body...)
	}
	route := func(attrs ...[]byte) []byte {
		return message(unix.RTM_NEWROUTE, slices.Concat(append([][]byte{make([]byte, unix.SizeofRtMsg)}, attrs...)...))
	}
	oif := attr(unix.RTA_OIF, u32(7))
	for _, c := range []struct {
		name       string
		reply      []byte
		index, mtu int
		bad        bool
	}{
		{name: "plain", reply: route(oif), index: 7},
		{name: "own mtu", reply: route(attr(unix.RTA_METRICS, append(attr(9, u32(5)), attr(unix.RTAX_MTU, u32(1400))...)), oif), index: 7, mtu: 1400},
		{name: "metrics cut short", reply: route(attr(unix.RTA_METRICS, []byte{200, 0, 2, 0}), oif), index: 7},
		{name: "metrics of length zero", reply: route(attr(unix.RTA_METRICS, make([]byte, 8)), oif), index: 7},
		{name: "no interface", reply: route(), bad: true},
		{name: "error", reply: message(unix.NLMSG_ERROR, append(u32(^uint32(unix.ENETUNREACH)+1), make([]byte, 16)...)), bad: true},
		{name: "short error", reply: message(unix.NLMSG_ERROR, nil), bad: true},
		{name: "nothing", reply: nil, bad: true},
		{name: "garbage", reply: make([]byte, 20), bad: true},
	} {
		index, mtu, err := parseRoute(c.reply)
		if (err != nil) != c.bad || index != c.index || mtu != c.mtu {
			t.Errorf("%s: %d, %d, %v", c.name, index, mtu, err)
		}
	}
}

func cidr(a, b, c, d byte) *net.IPNet {
	return &net.IPNet{IP: net.IPv4(a, b, c, d), Mask: net.CIDRMask(24, 32)}
}
