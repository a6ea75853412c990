package udp

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"felix/internal/testkit"
	"felix/platform"
)

// every is a configuration in which all features must be there.
var every = Config{GSO: On, GRO: On, SendMMsg: On, RecvMMsg: On, ECN: On, DontFragment: On}

func TestEveryFeatureIsThere(t *testing.T) {
	if !platform.Kernel().AtLeast(5, 0) {
		testkit.Missing(t, "Linux 5.0 (UDP_GRO)")
	}
	c := open(t, "udp", ":0", every)
	caps := c.Capabilities()
	for name, f := range map[string]Feature{
		"gso": caps.GSO, "gro": caps.GRO, "sendmmsg": caps.SendMMsg, "recvmmsg": caps.RecvMMsg,
		"ecn": caps.ECN, "don't-fragment": caps.DontFragment, "packet info": caps.PacketInfo,
	} {
		if !f.Active || f.Reason != "" {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if !caps.DualStack || caps.MaxSegments < oldSegments {
		t.Errorf("%+v", caps)
	}
}

// Whatever the segment size, the kernel refuses nothing of what is planned.
func TestNoPlannedMessageIsRefused(t *testing.T) {
	for i, f := range families {
		rx, tx, to := pair(t, i, every)
		_ = rx // overflow does not matter here, only what the kernel says to sends
		most := maxPayload(to.Addr())
		mtu, err := platform.LoopbackMTU()
		if err != nil {
			t.Fatal(err)
		}
		most = min(most, platform.UDPPayload(mtu, to.Addr().Is6() && !to.Addr().Is4In6()))
		b := make([]byte, 2*most+100)
		for size := 1; size <= most; size += 1 + size/9 {
			if _, _, err := tx.WriteMsgUDP(b[:min(len(b), 200*size)], AppendSegmentSize(nil, uint16(size)), net.UDPAddrFromAddrPort(to)); err != nil {
				t.Fatalf("%s, size %d: %v", f.name, size, err)
			}
			if s := tx.Stats(); s.Refusals() != 0 {
				t.Fatalf("%s, size %d: %v", f.name, size, s.Map())
			}
		}
	}
}

// sendmmsg stops at a message that the kernel does not take and takes at most
// 1024: everything that can leave does.
func TestBatchOverTheKernelsLimits(t *testing.T) {
	cfg := every
	cfg.GSO = Off
	rx, tx, to := pair(t, 0, cfg)
	ds := batch(1, 70000, 1, 1)
	n, err := tx.WriteDatagrams(ds, nil, to)
	if n != 3 || !errors.Is(err, syscall.EMSGSIZE) {
		t.Fatal(n, err)
	}
	wantData(t, receiveN(t, rx, 3), [][]byte{ds[0], ds[2], ds[3]})
	wantCounters(t, tx.Stats(), map[Counter]uint64{TooLargeDatagrams: 1, RefusedEMSGSIZE: 1, SentDatagrams: 3})
	if calls := tx.Stats().Get(SendCalls); calls > 3 {
		t.Errorf("%d calls", calls)
	}
	many := batch(repeat(1100, 40)...)
	if n, err := tx.WriteDatagrams(many, nil, to); n != 1100 || err != nil {
		t.Fatal(n, err)
	}
	wantData(t, receiveN(t, rx, 1100), many)
}

// With the clamp off the kernel refuses aggregates over 64 KiB (EMSGSIZE) and
// over its segment limit (EINVAL); the data arrives in the same call.
func TestRealRefusalsWithoutClamp(t *testing.T) {
	cfg := every
	cfg.Hooks.NoClamp = true
	for i := range families {
		rx, tx, to := pair(t, i, cfg)
		for _, sizes := range [][]int{repeat(10, 16336), repeat(300, 100)} {
			want := batch(sizes...)
			if n, err := tx.WriteDatagrams(want, nil, to); n != len(want) || err != nil {
				t.Fatal(n, err)
			}
			wantData(t, receiveN(t, rx, len(want)), want)
		}
		s := tx.Stats()
		if s.Get(RefusedEMSGSIZE) == 0 || s.Get(RefusedEINVAL) == 0 || s.Get(SentAggregates) == 0 {
			t.Errorf("%s: %v", families[i].name, s.Map())
		}
		wantCounters(t, s, map[Counter]uint64{PeerDowngrades: 0, LostDatagrams: 0, TooLargeDatagrams: 0})
	}
}

// With coalescing and segmentation a system call carries many datagrams.
func TestFewSystemCalls(t *testing.T) {
	rx, tx, to := pair(t, 0, every)
	want := batch(repeat(10*45, 1452)...)
	if n, err := tx.WriteDatagrams(want, nil, to); n != len(want) || err != nil {
		t.Fatal(n, err)
	}
	wantData(t, receiveN(t, rx, len(want)), want)
	s, r := tx.Stats(), rx.Stats()
	wantCounters(t, s, map[Counter]uint64{SendCalls: 1, SentAggregates: 10, SentSegments: 450})
	wantCounters(t, r, map[Counter]uint64{CoalescedReads: 10, CoalescedPieces: 450})
	if calls := r.Get(ReceiveCalls); calls > 4 {
		t.Errorf("%d receive calls", calls)
	}
}

// Each datagram of a coalesced message carries the packet information, which a
// server bound to all addresses needs to answer from the right one.
func TestPacketInfoOnEveryPiece(t *testing.T) {
	rx := open(t, "udp", ":0", every)
	tx := open(t, "udp4", "127.0.0.1:0", every)
	to := addrOf(rx)
	for _, local := range []string{"127.0.0.1", "127.0.0.5"} {
		dst := net.UDPAddr{IP: net.ParseIP(local), Port: int(to.Port())}
		if _, _, err := tx.WriteMsgUDP(make([]byte, 6001), AppendSegmentSize(nil, 1200), &dst); err != nil {
			t.Fatal(err)
		}
		for _, d := range receiveN(t, rx, 6) {
			if got := packetInfoOf(t, d.oob); got != local {
				t.Errorf("sent to %s, packet information %q", local, got)
			}
		}
	}
	if rx.Stats().Get(CoalescedReads) == 0 {
		t.Error("nothing was coalesced")
	}
}

func packetInfoOf(t *testing.T, oob []byte) string {
	t.Helper()
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range msgs {
		switch m.Header.Level {
		case unix.IPPROTO_UDP, unix.SOL_SOCKET:
			t.Errorf("a control message of this package reached the caller: %+v", m.Header)
		case unix.IPPROTO_IP:
			if m.Header.Type == unix.IP_PKTINFO {
				return net.IP(m.Data[8:12]).String()
			}
		}
	}
	return ""
}

// Datagrams that the kernel drops for want of buffer space are counted, also
// when nothing is received afterwards. 8 MiB granted would absorb 3640 datagrams
// of 1200 bytes before anyone reads one.
func TestOverflowIsCounted(t *testing.T) {
	cfg := every
	cfg.GRO, cfg.GSO = Off, Off
	cfg.ReadBuffer = 64 << 10
	rx := open(t, "udp4", "127.0.0.1:0", cfg)
	tx := open(t, "udp4", "127.0.0.1:0", every)
	n, err := tx.WriteDatagrams(batch(repeat(2000, 1200)...), nil, addrOf(rx))
	if n != 2000 || err != nil {
		t.Fatal(n, err)
	}
	drops := rx.Stats().Get(OverflowDrops)
	if drops == 0 {
		t.Fatal("nothing dropped, or nothing counted")
	}
	receiveN(t, rx, 2000-int(drops))
	if got := rx.Stats().Get(OverflowDrops); got != drops {
		t.Errorf("%d dropped before reading, %d after", drops, got)
	}
	// The second source, control data of a later datagram, says the same.
	if _, err := tx.WriteDatagrams(batch(5), nil, addrOf(rx)); err != nil {
		t.Fatal(err)
	}
	receiveN(t, rx, 1)
	if got := rx.Stats().Get(OverflowDrops); got != drops {
		t.Errorf("%d dropped, %d counted twice", drops, got)
	}
}

// A socket can be given buffer sizes through its descriptor, as quic-go does
// with 7 MiB; the configured ones come back.
func TestForeignBufferSizesOnARealSocket(t *testing.T) {
	c := open(t, "udp4", "127.0.0.1:0", Config{ReadBuffer: 100 << 10, WriteBuffer: 90 << 10})
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	sizes := func() (rcv, snd int) {
		if err := raw.Control(func(fd uintptr) {
			rcv, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF)
			snd, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
		}); err != nil {
			t.Fatal(err)
		}
		return rcv, snd
	}
	rcv, snd := sizes()
	if rcv != 200<<10 || snd != 180<<10 {
		t.Fatalf("read back %d and %d", rcv, snd)
	}
	c.SetReadBuffer(7 << 20)
	c.SetWriteBuffer(7 << 20)
	if err := raw.Control(func(fd uintptr) {
		for _, o := range []int{unix.SO_RCVBUF, unix.SO_SNDBUF, unix.SO_RCVBUFFORCE, unix.SO_SNDBUFFORCE} {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, o, 7<<20) // the forced ones need a right
		}
	}); err != nil {
		t.Fatal(err)
	}
	if r, s := sizes(); r != rcv || s != snd {
		t.Errorf("now %d and %d, were %d and %d", r, s, rcv, snd)
	}
	if g := c.Granted(); g.Read.Granted != 100<<10 || g.Write.Granted != 90<<10 {
		t.Errorf("%+v", g)
	}
}

// withoutNetAdmin runs f on a thread without CAP_NET_ADMIN.
func withoutNetAdmin(t *testing.T, f func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends without the right
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&hdr, &data[0]); err != nil {
			done <- err
			return
		}
		data[0].Effective &^= 1 << unix.CAP_NET_ADMIN
		if err := unix.Capset(&hdr, &data[0]); err != nil {
			done <- err
			return
		}
		f()
		done <- nil
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// Without CAP_NET_ADMIN a request over the host's limit is cut down and the
// notice says what limits it; the refused forced option is no error. With it
// there is nothing to say.
func TestBuffersByRight(t *testing.T) {
	limit, err := platform.SysctlInt("net.core.rmem_max")
	if err != nil {
		testkit.Missing(t, "the setting net.core.rmem_max")
	}
	asked := int(limit) + 1<<20
	was := buffersNoticed.Swap(false)
	defer buffersNoticed.Store(was)
	var notices []Notice
	cfg := Config{ReadBuffer: asked, WriteBuffer: MinBuffer, Notice: func(n Notice) { notices = append(notices, n) }}
	withoutNetAdmin(t, func() {
		for range 3 {
			c, err := Listen("udp4", "127.0.0.1:0", cfg)
			if err != nil {
				t.Error(err)
				return
			}
			want := Grant{Asked: asked, Granted: int(limit), Limit: "net.core.rmem_max", LimitBytes: int(limit)}
			if g := c.Granted().Read; g != want {
				t.Errorf("%+v, want %+v", g, want)
			}
			c.Close()
		}
	})
	if len(notices) != 1 || notices[0].Kind != BuffersLimited {
		t.Errorf("%d notices: %+v", len(notices), notices)
	}
	if platform.BufferForce().Answer != platform.Yes {
		testkit.Missing(t, "CAP_NET_ADMIN")
	}
	buffersNoticed.Store(false)
	c := open(t, "udp4", "127.0.0.1:0", cfg)
	if g := c.Granted().Read; g.Granted != asked || !g.Forced || g.Limit != "" {
		t.Errorf("with the right: %+v", g)
	}
	if len(notices) != 1 {
		t.Errorf("a notice although everything was granted: %+v", notices[1:])
	}
}

// The descriptor of a Conn is not inherited by child processes and does not
// block, adopted or not.
func TestDescriptorFlags(t *testing.T) {
	own := open(t, "udp4", "127.0.0.1:0", every)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0) // blocking and inheritable
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "activated")
	adopted, err := Adopt(f, every)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer adopted.Close()
	for name, c := range map[string]*Conn{"own": own, "adopted": adopted} {
		raw, _ := c.SyscallConn()
		if err := raw.Control(func(fd uintptr) {
			status, _ := unix.FcntlInt(fd, unix.F_GETFL, 0)
			flags, _ := unix.FcntlInt(fd, unix.F_GETFD, 0)
			if status&unix.O_NONBLOCK == 0 || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("%s: status %#x, flags %#x", name, status, flags)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// The memory that a send was given is not referred to afterwards, whatever the
// kind of send and however many rounds it took.
func TestSendLetsGoOfMemory(t *testing.T) {
	c := open(t, "udp4", "127.0.0.1:0", every)
	op := c.begin()
	segment := AppendSegmentSize(nil, 100)
	for name, send := range map[string]func() error{
		"buffer": func() error {
			_, err := op.write(make([]byte, 60000), segment, addrOf(c))
			return err
		},
		"datagrams": func() error { return op.run(outgoing{to: addrOf(c)}, batch(repeat(20, 1000)...)) },
		"messages": func() error {
			_, err := op.messages([]ipv4.Message{{Buffers: batch(100), OOB: tosMsg, Addr: c.LocalAddr()}})
			return err
		},
	} {
		if err := send(); err != nil {
			t.Fatal(name, err)
		}
		for _, d := range op.cut[:cap(op.cut)] {
			if d != nil {
				t.Fatalf("%s: a datagram is still referred to", name)
			}
		}
		for _, m := range op.out[:cap(op.out)] {
			if m.data != nil || m.control != nil {
				t.Fatalf("%s: a message is still referred to", name)
			}
		}
		s := op.calls.(*linuxSender)
		for _, v := range s.iovs[:cap(s.iovs)] {
			if v.Base != nil {
				t.Fatalf("%s: an I/O vector is still there", name)
			}
		}
		for i := range s.hdrs {
			if h := &s.hdrs[i].hdr; h.Iov != nil || h.Control != nil {
				t.Fatalf("%s: header %d still refers to memory", name, i)
			}
		}
	}
}

// A link-local address carries its interface in both directions.
func TestZones(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	var sa unix.RawSockaddrInet6
	z := &zones{}
	for zone, want := range map[string]uint32{"lo": uint32(lo.Index), "77": 77, "none such": 0, "": 0} {
		to := netip.AddrPortFrom(netip.MustParseAddr("fe80::1").WithZone(zone), 4433)
		if n := putSockaddr(&sa, true, to, z); n != unix.SizeofSockaddrInet6 || sa.Scope_id != want {
			t.Errorf("zone %q: scope %d, want %d", zone, sa.Scope_id, want)
		}
	}
	sa.Scope_id = uint32(lo.Index)
	if got := sourceOf(&sa).udpAddr(); got.Zone != "lo" || got.Port != 4433 {
		t.Errorf("%v", got)
	}
	sa.Scope_id = 9999
	if got := sourceOf(&sa).udpAddr(); got.Zone != "9999" {
		t.Errorf("%v", got)
	}
}

// The width of the runtime that counts is the one at the time the socket is
// opened: a program may set it after this package was initialised.
func TestWidthIsThatOfTheRunningProgram(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	for _, procs := range []int{1, 2} {
		runtime.GOMAXPROCS(procs)
		c := open(t, "udp4", "127.0.0.1:0", Config{})
		op := c.begin()
		defer op.end()
		small := isBulk(op.calls.(*linuxSender).narrow, 1)
		if got := isBulk(c.reader.calls.(*linuxReceiver).narrow, 1); small != (procs == 1) || got != small {
			t.Errorf("GOMAXPROCS %d: small sends in bulk %v, receives %v", procs, small, got)
		}
	}
}

// The addresses of neighbours in memory share an I/O vector, others do not.
func TestGather(t *testing.T) {
	b := make([]byte, 100)
	other := make([]byte, 50)
	s := newLinuxSender(nil, false, true, false)
	s.gather([][]byte{b[:10], b[10:30], b[40:50], b[50:60], other, b[60:]})
	var lens []int
	for _, v := range s.iovs {
		lens = append(lens, int(v.Len))
	}
	if !slices.Equal(lens, []int{30, 20, 50, 40}) {
		t.Errorf("%v", lens)
	}
	s.iovs = s.iovs[:0]
	s.gather([][]byte{{}})
	if len(s.iovs) != 1 || s.iovs[0].Len != 0 {
		t.Errorf("an empty datagram has vectors %v", s.iovs)
	}
}
