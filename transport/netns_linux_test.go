package transport

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"felix/internal/testkit"
)

// hosts are two network namespaces with a cable between them.
type hosts struct {
	a, b netns.NsHandle
}

const (
	hostA4, hostB4 = "192.0.2.1", "192.0.2.2"
	hostA6, hostB6 = "2001:db8::1", "2001:db8::2"
)

// newHosts makes the two hosts; both ends of the cable have the MTU given.
func newHosts(t *testing.T, mtu int) hosts {
	t.Helper()
	testkit.RequireRoot(t)
	h := hosts{a: newNamespace(t), b: newNamespace(t)}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	inside(t, h.a, func() {
		cable := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "cable", MTU: mtu}, PeerName: "end"}
		must(netlink.LinkAdd(cable))
		end, err := netlink.LinkByName("end")
		must(err)
		must(netlink.LinkSetNsFd(end, int(h.b)))
		setUp(t, "cable", mtu, hostA4+"/24", hostA6+"/64")
	})
	inside(t, h.b, func() { setUp(t, "end", mtu, hostB4+"/24", hostB6+"/64") })
	return h
}

func setUp(t *testing.T, name string, mtu int, addrs ...string) {
	t.Helper()
	link, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetMTU(link, mtu); err != nil {
		t.Fatal(err)
	}
	for _, text := range addrs {
		if mtu < 1280 && net.ParseIP(text[:len(text)-3]).To4() == nil {
			continue // IPv6 needs 1280
		}
		addr, err := netlink.ParseAddr(text)
		if err != nil {
			t.Fatal(err)
		}
		addr.Flags = 2 // IFA_F_NODAD: usable at once
		if err := netlink.AddrAdd(link, addr); err != nil {
			t.Fatal(err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		t.Fatal(err)
	}
}

func newNamespace(t *testing.T) netns.NsHandle {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	old, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	if err := netns.Set(old); err != nil {
		t.Fatal(err)
	}
	return ns
}

// inside runs f on a thread in a namespace. Sockets that it opens stay there.
func inside(t *testing.T, ns netns.NsHandle, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	old, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if err := netns.Set(ns); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := netns.Set(old); err != nil {
			panic(err) // the thread must not go on in the wrong namespace
		}
	}()
	f()
}

// TestNarrowLinks: links of 1280 and of 1228 bytes work; one that cannot carry QUIC at all is named at once.
func TestNarrowLinks(t *testing.T) {
	for _, test := range []struct {
		mtu    int
		server string
		works  bool
	}{
		{1500, hostA4, true},
		{1280, hostA4, true},
		{1280, hostA6, true},
		{1228, hostA4, true},
		{1227, hostA4, false},
	} {
		t.Run(fmt.Sprintf("%d to %s", test.mtu, test.server), func(t *testing.T) {
			h := newHosts(t, test.mtu)
			var l *Listener
			inside(t, h.a, func() { l = listenOn(t, net.JoinHostPort(test.server, "0"), nil) })
			echo(t, l)
			d := dialer(t, nil)
			var c *Conn
			var err error
			start := time.Now()
			inside(t, h.b, func() { c, err = d.Dial(testContext(t), l.Addr().String()) })
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("dial took %v", took)
			}
			if !test.works {
				if !errors.Is(err, ErrPacketTooBig) {
					t.Errorf("dial: %v, want ErrPacketTooBig", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := roundTrip(testContext(t), c, string(make([]byte, 200<<10))); err != nil {
				t.Errorf("transfer: %v", err)
			}
		})
	}
}
