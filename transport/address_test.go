package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"
)

// TestAddresses: listeners on single addresses and on all of them, clients of both IP versions and by name.
func TestAddresses(t *testing.T) {
	for _, test := range []struct {
		listen string
		dial   []string
	}{
		{"127.0.0.1", []string{"127.0.0.1", "localhost"}},
		{"[::1]", []string{"[::1]"}},
		{"0.0.0.0", []string{"127.0.0.1"}},
		{"[::]", []string{"127.0.0.1", "[::1]", "localhost"}},
		{"", []string{"127.0.0.1", "[::1]", "localhost"}},
		{"localhost", []string{"localhost"}},
	} {
		l := listenOn(t, test.listen+":0", nil)
		echo(t, l)
		port := l.Addr().(*net.UDPAddr).Port
		d := dialer(t, nil)
		for _, host := range test.dial {
			addr := fmt.Sprintf("%s:%d", host, port)
			c, err := d.Dial(testContext(t), addr)
			if err != nil {
				t.Errorf("listen on %q: %v", test.listen, err)
				continue
			}
			if err := roundTrip(testContext(t), c, "hello"); err != nil {
				t.Errorf("listen on %q, dial %s: %v", test.listen, addr, err)
			}
		}
	}
}

// TestIPv4ListenerIsIPv4Only: an IPv4 wildcard does not take the IPv6 port of the same number.
func TestIPv4ListenerIsIPv4Only(t *testing.T) {
	l := listenOn(t, "0.0.0.0:0", nil)
	port := l.Addr().(*net.UDPAddr).Port
	other, err := net.ListenPacket("udp6", fmt.Sprintf("[::]:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	other.Close()
}

// TestDialerSockets: all connections to loopback share a socket.
func TestDialerSockets(t *testing.T) {
	l := listen(t, nil)
	d := dialer(t, nil)
	a, _ := pair(t, l, d)
	b, _ := pair(t, l, d)
	if a.LocalAddr().String() != b.LocalAddr().String() || len(d.Sockets()) != 1 {
		t.Errorf("sockets %v and %v, %d in all", a.LocalAddr(), b.LocalAddr(), len(d.Sockets()))
	}
	if !a.LocalAddr().(*net.UDPAddr).IP.IsLoopback() {
		t.Errorf("socket for loopback peers is bound to %v", a.LocalAddr())
	}
	if l.Socket() == nil || l.Socket().LocalAddr().String() != l.Addr().String() {
		t.Error("the listener does not show its socket")
	}
	if a.ID() == b.ID() {
		t.Error("two connections with one id")
	}
}

// TestDialTriesAllAddresses: an address where nobody answers does not keep the next one from being tried.
func TestDialTriesAllAddresses(t *testing.T) {
	silent, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	l := listenOn(t, "[::1]:0", nil)
	dead := silent.LocalAddr().(*net.UDPAddr).AddrPort()
	live := l.Addr().(*net.UDPAddr).AddrPort()
	d := dialer(t, func(c *Config) { c.HandshakeTimeout = 4 * patience })
	for _, order := range [][]netip.AddrPort{{dead, live}, {live, dead}} {
		c, err := d.race(testContext(t), order)
		if err != nil {
			t.Fatal(err)
		}
		if ip := c.RemoteAddr().(*net.UDPAddr).IP; ip.To4() != nil {
			t.Errorf("connected to %v", ip)
		}
	}
	quick := dialer(t, func(c *Config) { c.HandshakeTimeout = 200 * time.Millisecond })
	_, err = quick.race(testContext(t), []netip.AddrPort{dead, dead})
	if !errors.Is(err, ErrHandshakeTimeout) && !errors.Is(err, ErrIdleTimeout) {
		t.Errorf("no address answers: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := d.race(ctx, []netip.AddrPort{dead, dead}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestResolve: IPv4 comes first, and IPv4 addresses are plain.
func TestResolve(t *testing.T) {
	all, err := resolve(testContext(t), "127.0.0.1:5000")
	if err != nil || len(all) != 1 || all[0] != netip.MustParseAddrPort("127.0.0.1:5000") {
		t.Errorf("resolve: %v, %v", all, err)
	}
	if rank(netip.MustParseAddr("::1")) <= rank(netip.MustParseAddr("::ffff:1.2.3.4")) {
		t.Error("IPv6 comes before IPv4")
	}
}
