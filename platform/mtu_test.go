package platform

import (
	"errors"
	"net"
	"net/netip"
	"testing"
)

func TestUDPPayload(t *testing.T) {
	for _, c := range []struct {
		mtu  int
		v6   bool
		want int
	}{
		{1500, false, 1472}, {1500, true, 1452}, {1280, false, 1252}, {1280, true, 1232},
		{16384, false, 16356}, {16384, true, 16336},
		{65536, false, 65507}, {65536, true, 65488}, {1 << 20, true, 65527},
		{20, false, 0}, {0, true, 0},
	} {
		if got := UDPPayload(c.mtu, c.v6); got != c.want {
			t.Errorf("mtu %d v6 %v: %d, want %d", c.mtu, c.v6, got, c.want)
		}
	}
}

func TestLoopback(t *testing.T) {
	name, err := LoopbackName()
	if err != nil {
		t.Fatal(err)
	}
	mtu, err := LoopbackMTU()
	if err != nil {
		t.Fatal(err)
	}
	if mtu < 1280 {
		t.Errorf("loopback mtu %d", mtu)
	}
	if byName, err := InterfaceMTU(name); err != nil || byName != mtu {
		t.Errorf("mtu of %s: %d, %v, want %d", name, byName, err, mtu)
	}
	r, err := RouteTo(netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Interface != name || r.InterfaceMTU != mtu || r.MTU != mtu {
		t.Errorf("route to loopback: %+v, want %s with mtu %d", r, name, mtu)
	}
	mapped, err := RouteTo(netip.MustParseAddr("::ffff:127.0.0.1"))
	if err != nil || mapped != r {
		t.Errorf("v4-mapped address: %+v, %v", mapped, err)
	}
}

func TestUnknownInterfaceAndAddress(t *testing.T) {
	if _, err := InterfaceMTU("nosuchif0"); err == nil {
		t.Error("an interface that is not there has an MTU")
	}
	if _, err := RouteTo(netip.Addr{}); err == nil {
		t.Error("a route to no address")
	}
	var op *net.OpError
	if _, err := InterfaceMTU("nosuchif0"); !errors.As(err, &op) {
		t.Errorf("the cause is lost: %v", err)
	}
}
