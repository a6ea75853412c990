package udp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"felix/internal/testkit"
	"felix/internal/testkit/netns"
	"felix/platform"
)

// openIn opens a socket inside a namespace.
func openIn(t testing.TB, n *netns.Namespace, network, addr string, cfg Config) *Conn {
	t.Helper()
	var c *Conn
	n.Run(t, func() (err error) {
		c, err = Listen(network, addr, cfg)
		return err
	})
	t.Cleanup(func() { c.Close() })
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// ends are the addresses of a pair of namespaces, by family.
var ends = []struct {
	name, network string
	a, b          netip.Addr
	headers       int
}{
	{"IPv4", "udp4", netns.A4, netns.B4, platform.HeadersV4},
	{"IPv6", "udp6", netns.A6, netns.B6, platform.HeadersV6},
}

// cable opens a socket at either end of a pair, the sender in a.
func cable(t testing.TB, a, b *netns.Namespace, end int, cfg Config) (rx, tx *Conn) {
	t.Helper()
	e := ends[end]
	rx = openIn(t, b, e.network, netip.AddrPortFrom(e.b, 0).String(), cfg)
	tx = openIn(t, a, e.network, netip.AddrPortFrom(e.a, 0).String(), cfg)
	return rx, tx
}

// A path with a smaller MTU than the segments: the kernel refuses the segmented
// send and the single datagrams, the caller hears that they are too large, and
// segments that fit still go together.
func TestPathWithSmallMTU(t *testing.T) {
	for i, e := range ends {
		t.Run(e.name, func(t *testing.T) {
			a, b := netns.Pair(t)
			a.SetMTU(t, netns.Cable, 1280)
			b.SetMTU(t, netns.Cable, 1280)
			rx, tx := cable(t, a, b, i, every)
			fits := 1280 - e.headers
			for _, size := range []int{1452, fits + 1} {
				if err := writeSegmented(tx, batch(repeat(10, size)...), addrOf(rx)); !errors.Is(err, syscall.EMSGSIZE) {
					t.Errorf("%d bytes: %v", size, err)
				}
				if _, err := tx.WriteTo(make([]byte, size), rx.LocalAddr()); !errors.Is(err, syscall.EMSGSIZE) {
					t.Errorf("%d bytes alone: %v", size, err)
				}
			}
			before := tx.Stats()
			want := batch(append(repeat(10, fits), 1200, 7)...)
			if n, err := tx.WriteDatagrams(want, nil, addrOf(rx)); n != 12 || err != nil {
				t.Fatal(n, err)
			}
			wantData(t, receiveN(t, rx, 12), want)
			d := tx.Stats().Sub(before)
			wantCounters(t, d, map[Counter]uint64{SentAggregates: 1, SentSegments: 11, PeerDowngrades: 0})
			if d.Refusals() != 0 {
				t.Errorf("%v", d.Map())
			}
		})
	}
}

// The smallest MTU that QUIC's 1200 bytes pass through over IPv4 is 1228; one
// less and the send says so at once.
func TestMinimumMTU(t *testing.T) {
	a, b := netns.Pair(t)
	for _, x := range []struct {
		mtu  int
		fits bool
	}{{1228, true}, {1227, false}} {
		a.SetMTU(t, netns.Cable, x.mtu)
		rx, tx := cable(t, a, b, 0, every)
		_, err := tx.WriteTo(make([]byte, 1200), rx.LocalAddr())
		if (err == nil) != x.fits || err != nil && !errors.Is(err, syscall.EMSGSIZE) {
			t.Errorf("MTU %d: %v", x.mtu, err)
		}
		if x.fits {
			receiveN(t, rx, 1)
		}
	}
}

// A route to one destination has a smaller MTU than the cable: only that
// destination loses segments of the larger size, and they reach it unsegmented
// where the host may fragment.
func TestSmallMTUOfOneRoute(t *testing.T) {
	a, b := netns.Pair(t)
	far := netip.MustParseAddr("10.97.0.1")
	b.AddAddress(t, netip.PrefixFrom(far, 32))
	a.AddRoute(t, netip.PrefixFrom(far, 32), 1300)
	cfg := every
	cfg.DontFragment = Off
	rx := openIn(t, b, "udp4", "0.0.0.0:0", cfg)
	tx := openIn(t, a, "udp4", netip.AddrPortFrom(netns.A4, 0).String(), cfg)
	port := addrOf(rx).Port()
	near, distant := netip.AddrPortFrom(netns.B4, port), netip.AddrPortFrom(far, port)
	big, small := batch(repeat(20, 1400)...), batch(repeat(20, 1272)...)
	for _, x := range []struct {
		name       string
		ds         [][]byte
		to         netip.AddrPort
		aggregates uint64
	}{
		{"large to the small route", big, distant, 0},
		{"large to the small route again", big, distant, 0},
		{"large to the other", big, near, 1},
		{"small to the small route", small, distant, 1},
	} {
		before := tx.Stats()
		if n, err := tx.WriteDatagrams(x.ds, nil, x.to); n != 20 || err != nil {
			t.Fatal(x.name, n, err)
		}
		wantData(t, receiveN(t, rx, 20), x.ds)
		if d := tx.Stats().Sub(before); d.Get(SentAggregates) != x.aggregates {
			t.Errorf("%s: %d aggregates, want %d", x.name, d.Get(SentAggregates), x.aggregates)
		}
	}
	wantCounters(t, tx.Stats(), map[Counter]uint64{PeerDowngrades: 1, RefusedEMSGSIZE: 1, LostDatagrams: 0})
}

// A black hole: the far end takes less than the near end sends. Larger datagrams
// vanish without an error and without an end to the socket; smaller ones pass.
// The device must not segment by itself, for super-packets would pass unchecked.
func TestBlackHole(t *testing.T) {
	for i, e := range ends {
		t.Run(e.name, func(t *testing.T) {
			a, b := netns.Pair(t)
			b.SetMTU(t, netns.Cable, 1280)
			for _, o := range []string{platform.OffloadGSO, platform.OffloadUDPSegment} {
				a.Offload(t, netns.Cable, o, false)
			}
			rx, tx := cable(t, a, b, i, every)
			if n, err := tx.WriteDatagrams(batch(append(repeat(5, 1452), 1400)...), nil, addrOf(rx)); n != 6 || err != nil {
				t.Fatal(n, err)
			}
			want := batch(repeat(5, 1200)...)
			if n, err := tx.WriteDatagrams(want, nil, addrOf(rx)); n != 5 || err != nil {
				t.Fatal(n, err)
			}
			wantData(t, receiveN(t, rx, 5), want)
		})
	}
}

// A slow link with a short queue drops: that is packet loss, with and without
// error queueing, and the kernel's counter tells.
func TestFullQueueIsPacketLoss(t *testing.T) {
	for _, queueing := range []bool{false, true} {
		t.Run("error queueing "+strconv.FormatBool(queueing), func(t *testing.T) {
			a, b := netns.Pair(t)
			a.Throttle(t, 1_000_000, 3000, 6000)
			rx, tx := cable(t, a, b, 0, every)
			if queueing {
				raw, _ := tx.SyscallConn()
				if err := raw.Control(func(fd uintptr) {
					if err := unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVERR, 1); err != nil {
						t.Error(err)
					}
				}); err != nil {
					t.Fatal(err)
				}
			}
			const n = 100
			for i := range n {
				if _, err := tx.WriteTo(numbered(i, 1000), rx.LocalAddr()); err != nil {
					t.Fatalf("datagram %d: %v", i, err)
				}
			}
			s := tx.Stats()
			if queueing != (s.Get(RefusedENOBUFS) > 0) || s.Get(LostDatagrams) != s.Get(RefusedENOBUFS) ||
				s.Get(SentDatagrams)+s.Get(LostDatagrams) != n {
				t.Errorf("%v", s.Map())
			}
			if errs := udpCounter(t, a, "SndbufErrors"); errs == 0 {
				t.Error("the kernel counts no SndbufErrors")
			}
			if err := tx.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			// Queued errors do not end the reader either.
			if _, _, err := tx.ReadFrom(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%v", err)
			}
			if _, _, err := rx.ReadFrom(make([]byte, 1000)); err != nil {
				t.Error(err)
			}
		})
	}
}

// udpCounter reads one of the kernel's UDP counters in a namespace.
func udpCounter(t *testing.T, n *netns.Namespace, name string) int {
	t.Helper()
	var names []string
	for line := range strings.Lines(n.Proc(t, "snmp")) {
		f := strings.Fields(line)
		if f[0] != "Udp:" {
			continue
		}
		if names == nil {
			names = f
			continue
		}
		for i := range names {
			if names[i] == name {
				v, err := strconv.Atoi(f[i])
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
		}
	}
	t.Fatalf("no counter %s", name)
	return 0
}

// A full send buffer makes a send wait for room, up to the deadline, without a
// busy loop; what the kernel had taken before counts as sent.
func TestFullSendBufferWaits(t *testing.T) {
	a, b := netns.Pair(t)
	a.Throttle(t, 100_000, 3000, 1<<20)
	cfg := every
	cfg.WriteBuffer = 4096
	rx, tx := cable(t, a, b, 0, cfg)
	if err := tx.SetWriteDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	ds := batch(repeat(200, 1000)...)
	n, err := tx.WriteDatagrams(ds, nil, addrOf(rx))
	if n == 0 || n == len(ds) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(n, err)
	}
	s := tx.Stats()
	if s.Get(SendWaits) == 0 || s.Get(SendCalls) > 400 || int(s.Get(SentDatagrams)) != n || int(s.Get(FailedDatagrams)) != len(ds)-n {
		t.Errorf("%d sent: %v", n, s.Map())
	}
	if err := tx.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if k, err := tx.WriteDatagrams(ds[n:n+5], nil, addrOf(rx)); k != 5 || err != nil {
		t.Fatal(k, err)
	}
	wantData(t, receiveN(t, rx, n+5), ds[:n+5])
}

// No route, an interface that is down, a host that does not answer, a port that
// nobody listens on: the socket goes on and serves the others.
func TestUnreachableDestinations(t *testing.T) {
	a, b := netns.Pair(t)
	rx := openIn(t, b, "udp4", netip.AddrPortFrom(netns.B4, 0).String(), every)
	tx := openIn(t, a, "udp4", "0.0.0.0:0", every)
	for _, dst := range []string{"203.0.113.1:9", "10.98.0.77:9", netip.AddrPortFrom(netns.B4, 9).String()} {
		to := netip.MustParseAddrPort(dst)
		for range 3 {
			if err := writeSegmented(tx, batch(repeat(5, 1200)...), to); err != nil {
				t.Errorf("%v: %v", dst, err)
			}
		}
	}
	r, ok := tx.LastRefusal(netip.MustParseAddr("203.0.113.1"))
	if !ok || r.Errno != syscall.ENETUNREACH {
		t.Errorf("%+v, %v", r, ok)
	}
	want := batch(repeat(5, 1200)...)
	if n, err := tx.WriteDatagrams(want, nil, addrOf(rx)); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	wantData(t, receiveN(t, rx, 5), want)
	if s := tx.Stats(); s.Get(RefusedENETUNREACH) == 0 || s.Get(PeerDowngrades) != 0 {
		t.Errorf("%v", s.Map())
	}
}

// The address that a server answers from goes away: a loss, and segmentation is
// not blamed.
func TestSourceAddressGone(t *testing.T) {
	a, b := netns.Pair(t)
	extra := netip.MustParsePrefix("10.98.0.50/32")
	a.AddAddress(t, extra)
	rx := openIn(t, b, "udp4", netip.AddrPortFrom(netns.B4, 0).String(), every)
	tx := openIn(t, a, "udp4", "0.0.0.0:0", every)
	src := extra.Addr().As4()
	info := append(make([]byte, 4), append(src[:], 0, 0, 0, 0)...)
	oob := cmsg(unix.IPPROTO_IP, unix.IP_PKTINFO, info)
	want := batch(repeat(5, 1200)...)
	if n, err := tx.WriteDatagrams(want, oob, addrOf(rx)); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	if got := receiveN(t, rx, 5)[4].from.Addr().Unmap(); got != extra.Addr() {
		t.Errorf("from %v, want %v", got, extra.Addr())
	}
	a.RemoveAddress(t, extra)
	if n, err := tx.WriteDatagrams(want, oob, addrOf(rx)); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	before := tx.Stats()
	wantCounters(t, before, map[Counter]uint64{LostDatagrams: 5})
	if n, err := tx.WriteDatagrams(want, nil, addrOf(rx)); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	if d := tx.Stats().Sub(before); d.Get(SentAggregates) != 1 {
		t.Errorf("%v", d.Map())
	}
	wantData(t, receiveN(t, rx, 5), want)
}

// With IPv6 switched off a wildcard serves IPv4 and an IPv6 address is a clear
// error.
func TestWithoutIPv6(t *testing.T) {
	n := netns.New(t)
	n.Sysctl(t, "net.ipv6.conf.all.disable_ipv6", "1")
	rx := openIn(t, n, "udp", ":0", every)
	tx := openIn(t, n, "udp4", "127.0.0.1:0", every)
	want := batch(repeat(10, 1200)...)
	to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), addrOf(rx).Port())
	if k, err := tx.WriteDatagrams(want, nil, to); k != 10 || err != nil {
		t.Fatal(k, err)
	}
	wantData(t, receiveN(t, rx, 10), want)
	err := n.Do(func() error {
		c, err := Listen("udp", "[::1]:0", every)
		if err == nil {
			c.Close()
		}
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "[::1]") || !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("%v", err)
	}
}

// A link-local peer is reached through its zone, and reported with it.
func TestLinkLocalPeers(t *testing.T) {
	a, b := netns.Pair(t)
	la, lb := netip.MustParsePrefix("fe80::a/64"), netip.MustParsePrefix("fe80::b/64")
	a.AddAddress(t, la)
	b.AddAddress(t, lb)
	var got, back []datagram
	// Zones are names, so that everything that names one happens inside.
	b.Run(t, func() error {
		rx, err := Listen("udp6", "[::]:4433", every)
		if err != nil {
			return err
		}
		defer rx.Close()
		return a.Do(func() error {
			tx, err := Listen("udp6", "[::]:0", every)
			if err != nil {
				return err
			}
			defer tx.Close()
			to := netip.AddrPortFrom(lb.Addr().WithZone(netns.Cable), 4433)
			if _, err := tx.WriteDatagrams(batch(100, 100), nil, to); err != nil {
				return err
			}
			if err := b.Do(func() error {
				got = receiveN(t, rx, 2)
				_, err := rx.WriteTo([]byte("back"), net.UDPAddrFromAddrPort(got[0].from))
				return err
			}); err != nil {
				return err
			}
			back = receiveN(t, tx, 1)
			return nil
		})
	})
	if from := got[0].from.Addr(); from != la.Addr().WithZone(netns.Cable) {
		t.Errorf("received from %v", from)
	}
	if string(back[0].data) != "back" {
		t.Errorf("%q", back[0].data)
	}
}

// grantInUserNamespace is the environment variable that makes the test binary
// open a socket and print what it was granted.
const grantInUserNamespace = "FELIX_TEST_UDP_GRANT"

// In a user namespace the forced option is refused although the process is root
// there, which is no error, and the notice names the limit.
func TestBuffersInUserNamespace(t *testing.T) {
	if os.Getenv(grantInUserNamespace) != "" {
		printGrant()
		return
	}
	testkit.RequireRoot(t)
	limit, err := platform.SysctlInt("net.core.rmem_max")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestBuffersInUserNamespace$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", grantInUserNamespace, limit+1<<20))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
			testkit.Missing(t, "user namespaces")
		}
		t.Fatalf("%v\n%s", err, out)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	var got struct {
		Buffers Buffers
		Notices []string
	}
	if err := json.Unmarshal([]byte(line), &got); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	if g := got.Buffers.Read; g.Forced || g.Granted != int(limit) || g.Limit != "net.core.rmem_max" {
		t.Errorf("%+v", g)
	}
	if len(got.Notices) != 1 || !strings.Contains(got.Notices[0], "net.core.rmem_max") {
		t.Errorf("%q", got.Notices)
	}
}

func printGrant() {
	asked, err := strconv.Atoi(os.Getenv(grantInUserNamespace))
	var notices []string
	var c *Conn
	for range 2 {
		if err == nil {
			c, err = Listen("udp4", ":0", Config{ReadBuffer: asked, WriteBuffer: MinBuffer, Notice: func(n Notice) { notices = append(notices, n.Text) }})
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		defer c.Close()
	}
	line, _ := json.Marshal(map[string]any{"Buffers": c.Granted(), "Notices": notices})
	fmt.Println(string(line))
}
