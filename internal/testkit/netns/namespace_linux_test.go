package netns

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"felix/internal/testkit"
	"felix/platform"
)

func TestPairCarriesBothFamilies(t *testing.T) {
	a, b := Pair(t)
	for _, x := range []struct{ from, to netip.Addr }{{A4, B4}, {A6, B6}} {
		var rx, tx *net.UDPConn
		b.Run(t, func() (err error) {
			rx, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(x.to, 0)))
			return err
		})
		defer rx.Close()
		a.Run(t, func() (err error) {
			tx, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(x.from, 0)))
			return err
		})
		defer tx.Close()
		if _, err := tx.WriteTo([]byte("hi"), rx.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		rx.SetReadDeadline(time.Now().Add(10 * time.Second))
		buf := make([]byte, 10)
		n, from, err := rx.ReadFromUDPAddrPort(buf)
		if err != nil || string(buf[:n]) != "hi" || from.Addr().Unmap() != x.from {
			t.Fatalf("%v -> %v: %q from %v, %v", x.from, x.to, buf[:n], from, err)
		}
	}
}

func TestMTUAndOffloadsTakeEffect(t *testing.T) {
	a, _ := Pair(t)
	a.SetMTU(t, Cable, 1300)
	a.Offload(t, Cable, platform.OffloadGSO, false)
	a.Run(t, func() error {
		if mtu, err := platform.InterfaceMTU(Cable); err != nil || mtu != 1300 {
			t.Errorf("MTU %d, %v", mtu, err)
		}
		o, err := platform.InterfaceOffloads(Cable)
		if o.Active(platform.OffloadGSO) != platform.No {
			t.Errorf("segmentation is still on: %+v, %v", o[platform.OffloadGSO], err)
		}
		return nil
	})
}

func TestThrottleLimitsTheQueue(t *testing.T) {
	a, b := Pair(t)
	a.Throttle(t, 1_000_000, 3000, 6000)
	var sink *net.UDPConn
	b.Run(t, func() (err error) {
		sink, err = net.ListenUDP("udp4", &net.UDPAddr{IP: B4.AsSlice()})
		return err
	})
	defer sink.Close()
	err := a.Do(func() error {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: A4.AsSlice()})
		if err != nil {
			return err
		}
		defer c.Close()
		raw, err := c.SyscallConn()
		if err != nil {
			return err
		}
		raw.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVERR, 1) })
		for range 100 {
			if _, err := c.WriteTo(make([]byte, 1000), sink.LocalAddr()); err != nil {
				return err
			}
		}
		return nil
	})
	if !errors.Is(err, unix.ENOBUFS) {
		t.Fatalf("100 KB into a queue of 6 KB: %v", err)
	}
}

func TestSettingsStayInside(t *testing.T) {
	outside, err := os.ReadFile("/proc/sys/net/ipv6/conf/all/disable_ipv6")
	if err != nil {
		testkit.Missing(t, "a kernel with IPv6")
	}
	n := New(t)
	n.Sysctl(t, "net.ipv6.conf.all.disable_ipv6", "1")
	n.Run(t, func() error {
		if v, err := platform.SysctlInt("net.ipv6.conf.all.disable_ipv6"); v != 1 {
			t.Errorf("inside: %d, %v", v, err)
		}
		return nil
	})
	if now, _ := os.ReadFile("/proc/sys/net/ipv6/conf/all/disable_ipv6"); string(now) != string(outside) {
		t.Fatalf("outside: %q, was %q", now, outside)
	}
	if !strings.Contains(n.Proc(t, "snmp"), "Udp:") {
		t.Fatal("no UDP counters in the namespace")
	}
}

func TestErrorsInsideComeOut(t *testing.T) {
	n := New(t)
	want := errors.New("inside")
	if err := n.Do(func() error { return want }); err != want {
		t.Fatal(err)
	}
	if err := n.Do(func() error { runtime.Goexit(); return nil }); err == nil {
		t.Fatal("a function that ended its goroutine counts as done")
	}
}
