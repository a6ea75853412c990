package udp

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"felix/platform"
)

// kernelX is a fake of the batched system calls of macOS.
type kernelX struct {
	errs   []syscall.Errno // answers to come, 0 for acceptance
	limit  int             // messages taken a call, 0: all
	sent   []datagram
	queue  []read
	calls  int
	family []uint16
}

// rawOf is a descriptor that is always ready.
type rawOf struct{}

func (rawOf) Control(f func(uintptr)) error { f(3); return nil }

func (rawOf) Read(f func(uintptr) bool) error {
	for range 100 {
		if f(3) {
			return nil
		}
	}
	return errors.New("never ready")
}

func (rawOf) Write(f func(uintptr) bool) error { return rawOf{}.Read(f) }

func (k *kernelX) answer() syscall.Errno {
	k.calls++
	if len(k.errs) == 0 {
		return 0
	}
	e := k.errs[0]
	k.errs = k.errs[1:]
	return e
}

func (k *kernelX) send(fd uintptr, hdrs *msghdrX, n int) (int, syscall.Errno) {
	if e := k.answer(); e != 0 {
		return -1, e
	}
	if k.limit > 0 {
		n = min(n, k.limit)
	}
	for _, h := range unsafe.Slice(hdrs, n) {
		if h.iovlen != 1 || h.datalen != 0 || h.flags != 0 {
			return -1, syscall.EINVAL
		}
		sa := (*unix.RawSockaddrInet6)(unsafe.Pointer(h.name))
		k.family = append(k.family, sa.Family)
		src := sourceOf(sa)
		k.sent = append(k.sent, datagram{
			data: bytes.Clone(unsafe.Slice(h.iov.Base, int(h.iov.Len))),
			oob:  bytes.Clone(unsafe.Slice(h.control, int(h.controllen))),
			from: netip.AddrPortFrom(netip.AddrFrom16(src.addr), src.port),
		})
	}
	return n, 0
}

func (k *kernelX) receive(fd uintptr, hdrs *msghdrX, n int) (int, syscall.Errno) {
	if e := k.answer(); e != 0 {
		return -1, e
	}
	if len(k.queue) == 0 {
		return -1, syscall.EAGAIN
	}
	n = min(n, len(k.queue))
	for i, h := range unsafe.Slice(hdrs, n) {
		r := k.queue[i]
		p := &unsafe.Slice(hdrs, n)[i]
		p.datalen = uint64(copy(unsafe.Slice(h.iov.Base, int(h.iov.Len)), r.data))
		p.controllen = uint32(copy(unsafe.Slice(h.control, int(h.controllen)), r.control))
		if r.truncated {
			p.flags |= msgTrunc
		}
		ap := netip.AddrPortFrom(netip.AddrFrom16(r.from.addr), r.from.port)
		putSockaddr((*unix.RawSockaddrInet6)(unsafe.Pointer(h.name)), true, ap, &zones{})
	}
	k.queue = k.queue[n:]
	return n, 0
}

// darwinCaps are those of a host with the batched calls.
func darwinCaps() Capabilities {
	on := Feature{Active: true}
	return Capabilities{SendMMsg: on, RecvMMsg: on, ECN: on, MaxSegments: 1}
}

// darwinConn is a Conn over the macOS layer and a fake kernel.
func darwinConn(t *testing.T, k *kernelX, caps Capabilities, v6 bool) *Conn {
	t.Helper()
	uc, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { uc.Close() })
	raw, _ := uc.SyscallConn()
	c := &Conn{uc: uc, raw: raw, policy: &darwinPolicy, opts: &fakeOptions{}, caps: caps, v6: v6}
	c.start(newSystemX(uc, rawOf{}, v6, caps, k.send, k.receive))
	return c
}

func TestMsghdrXHasTheLayoutOfTheKernel(t *testing.T) {
	var h msghdrX
	for name, x := range map[string][2]uintptr{
		"namelen": {unsafe.Offsetof(h.namelen), 8}, "iov": {unsafe.Offsetof(h.iov), 16},
		"iovlen": {unsafe.Offsetof(h.iovlen), 24}, "control": {unsafe.Offsetof(h.control), 32},
		"controllen": {unsafe.Offsetof(h.controllen), 40}, "flags": {unsafe.Offsetof(h.flags), 44},
		"datalen": {unsafe.Offsetof(h.datalen), 48}, "size": {unsafe.Sizeof(h), 56},
	} {
		if x[0] != x[1] {
			t.Errorf("%s at %d, want %d", name, x[0], x[1])
		}
	}
}

// A batch leaves in as few calls as the kernel's limit allows, in order; on an
// IPv6 socket an IPv4 peer is passed as v4-mapped, for an IPv4 address fails on
// macOS.
func TestDarwinBatchSend(t *testing.T) {
	for _, v6 := range []bool{true, false} {
		k := &kernelX{}
		c := darwinConn(t, k, darwinCaps(), v6)
		want := batch(repeat(70, 1200)...)
		oob := AppendECN(nil, peerA.Addr(), ECT0)
		if n, err := c.WriteDatagrams(want, oob, peerA); n != 70 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		wantData(t, k.sent, want)
		family := uint16(unix.AF_INET)
		if v6 {
			family = unix.AF_INET6
		}
		for i, d := range k.sent {
			if d.from.Addr() != netip.AddrFrom16(peerA.Addr().As16()) || d.from.Port() != peerA.Port() || k.family[i] != family {
				t.Fatalf("IPv6 socket %v: sent to %v, family %d", v6, d.from, k.family[i])
			}
			if !bytes.Equal(d.oob, oob) {
				t.Fatalf("control data %x", d.oob)
			}
		}
		if k.calls != 3 { // 64 planned at a time, 32 a call, then the 6 left
			t.Errorf("%d calls", k.calls)
		}
	}
}

// Refusals, partial results and a full buffer are dealt with as on Linux.
func TestDarwinSendRefusals(t *testing.T) {
	k := &kernelX{errs: []syscall.Errno{syscall.EAGAIN, syscall.EAGAIN, 0, syscall.ENOBUFS, syscall.EMSGSIZE}, limit: 2}
	c := darwinConn(t, k, darwinCaps(), true)
	ds := batch(10, 20, 30, 40, 50)
	n, err := c.WriteDatagrams(ds, nil, peer6)
	if n != 3 || !errors.Is(err, syscall.EMSGSIZE) {
		t.Fatalf("%d, %v", n, err)
	}
	wantData(t, k.sent, [][]byte{ds[0], ds[1], ds[4]})
	wantCounters(t, c.Stats(), map[Counter]uint64{
		SendWaits: 1, LostDatagrams: 1, TooLargeDatagrams: 1, RefusedENOBUFS: 1, RefusedEMSGSIZE: 1, SentAggregates: 0,
	})
}

func TestDarwinBatchReceive(t *testing.T) {
	k := &kernelX{errs: []syscall.Errno{syscall.EAGAIN}}
	var want [][]byte
	for i := range 40 {
		want = append(want, numbered(i, 100+i))
		k.queue = append(k.queue, read{data: want[i], control: tosMsg, from: from4(byte(i), 5)})
	}
	k.queue = slices.Insert(k.queue, 5, read{data: numbered(99, 60), truncated: true})
	c := darwinConn(t, k, darwinCaps(), true)
	got := receiveN(t, c, 40)
	wantData(t, got, want)
	for i, d := range got {
		if d.from.Addr() != netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}) || !bytes.Equal(d.oob, tosMsg) {
			t.Fatalf("datagram %d from %v with %x", i, d.from, d.oob)
		}
	}
	wantCounters(t, c.Stats(), map[Counter]uint64{ReceiveCalls: 3, ReceiveEmptyCalls: 1, DroppedTruncated: 1})
}

// A kernel without the calls, or a switch that is off: one datagram a call
// through package net, over a real socket.
func TestDarwinWithoutBatchedCalls(t *testing.T) {
	off := darwinCaps()
	off.SendMMsg, off.RecvMMsg = Feature{}, Feature{}
	for name, x := range map[string]struct {
		caps  Capabilities
		calls int
	}{
		"missing":      {darwinCaps(), 2},
		"switched off": {off, 0},
	} {
		k := &kernelX{errs: slices.Repeat([]syscall.Errno{syscall.ENOSYS}, 10)}
		c := darwinConn(t, k, x.caps, false)
		to := addrOf(c)
		want := batch(10, 20, 30)
		if n, err := c.WriteDatagrams(want, nil, to); n != 3 || err != nil {
			t.Fatalf("%s: %d, %v", name, n, err)
		}
		got := receiveN(t, c, 3)
		wantData(t, got, want)
		if got[0].from != to {
			t.Errorf("%s: from %v, want %v", name, got[0].from, to)
		}
		if k.calls != x.calls {
			t.Errorf("%s: %d batched calls", name, k.calls)
		}
	}
}

func TestDarwinProbe(t *testing.T) {
	for errno, there := range map[syscall.Errno]bool{
		syscall.ENOSYS: false, syscall.EOPNOTSUPP: false, syscall.EBADF: true, syscall.EINVAL: true, 0: true,
	} {
		err := probeX(func(uintptr, *msghdrX, int) (int, syscall.Errno) { return -1, errno })
		if (err == nil) != there || err != nil && !errors.Is(err, platform.ErrNotSupported) {
			t.Errorf("%v: %v", errno, err)
		}
	}
}
