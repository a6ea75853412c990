package udp

import (
	"bytes"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/ipv4"
)

func from4(last byte, port uint16) source {
	s := source{port: port}
	s.addr[10], s.addr[11] = 0xff, 0xff
	copy(s.addr[12:], []byte{10, 0, 0, last})
	return s
}

// A coalesced message comes out as its datagrams, each with its source and the
// control data, wherever the stride stood among it, over as many calls as the
// caller's messages need.
func TestCoalescedReadIsSplit(t *testing.T) {
	data := numbered(3, 6001)
	kept := join(info4Msg, tosMsg)
	for name, control := range map[string][]byte{
		"first":  join(strideMsg, info4Msg, tosMsg),
		"middle": join(info4Msg, strideMsg, tosMsg),
		"last":   join(info4Msg, tosMsg, strideMsg),
	} {
		for _, room := range []int{1, 2, 8} {
			recv := &script{steps: []step{{reads: []read{
				{data: data, control: control, from: from4(1, 4433)},
				{data: data[:50], control: kept, from: from4(2, 4434)},
			}}}}
			c := fakeConn(t, Config{}, everything(), &kernel{}, recv)
			var got []datagram
			ms := messages(room, 1452)
			for len(got) < 7 {
				n, err := c.ReadBatch(ms, 0)
				if err != nil {
					t.Fatalf("%s, %d a call: after %d: %v", name, room, len(got), err)
				}
				for _, m := range ms[:n] {
					got = append(got, datagram{
						data: bytes.Clone(m.Buffers[0][:m.N]), oob: bytes.Clone(m.OOB[:m.NN]), from: m.Addr.(*net.UDPAddr).AddrPort(),
					})
				}
			}
			want := [][]byte{data[:1200], data[1200:2400], data[2400:3600], data[3600:4800], data[4800:6000], data[6000:], data[:50]}
			wantData(t, got, want)
			for i, d := range got {
				src := "10.0.0.1:4433"
				if i == 6 {
					src = "10.0.0.2:4434"
				}
				if d.from.String() != src || !bytes.Equal(d.oob, kept) {
					t.Errorf("%s, %d a call: datagram %d from %v with control data %x", name, room, i, d.from, d.oob)
				}
			}
			wantCounters(t, c.Stats(), map[Counter]uint64{
				ReceivedDatagrams: 7, ReceivedBytes: 6051, CoalescedReads: 1, CoalescedPieces: 6, ReceiveCalls: 1,
			})
		}
	}
}

// Without a stride that can be trusted a coalesced read is dropped and counted,
// never passed up as one datagram or in part; what follows arrives.
func TestUntrustworthyReadsAreDropped(t *testing.T) {
	data := numbered(3, 6001)
	for name, x := range map[string]struct {
		r     read
		count Counter
	}{
		"no stride, larger than any datagram": {read{data: data, control: tosMsg}, DroppedOversize},
		"control data cut off":                {read{data: data, control: join(strideMsg, tosMsg), ctrunc: true}, DroppedControl},
		"control data malformed":              {read{data: data, control: strideMsg[:17]}, DroppedControl},
		"stride of 0":                         {read{data: data, control: cmsg(17, 104, u32(0))}, DroppedStride},
		"negative stride":                     {read{data: data, control: cmsg(17, 104, u32(1<<31))}, DroppedStride},
		"data cut off":                        {read{data: data[:4000], control: strideMsg, truncated: true}, DroppedTruncated},
	} {
		good := numbered(9, 100)
		recv := &script{steps: []step{{reads: []read{x.r, {data: good, control: tosMsg}}}}}
		c := fakeConn(t, Config{}, everything(), &kernel{}, recv)
		ms := messages(8, 1452)
		n, err := c.ReadBatch(ms, 0)
		if n != 1 || err != nil || !bytes.Equal(ms[0].Buffers[0][:ms[0].N], good) {
			t.Errorf("%s: %d datagrams, %v, the first of %d bytes", name, n, err, ms[0].N)
		}
		wantCounters(t, c.Stats(), map[Counter]uint64{x.count: 1, ReceivedDatagrams: 1})
	}
}

// A datagram larger than the caller's buffer is dropped whole, its neighbours in
// the same message are not affected.
func TestOversizeDatagramIsDropped(t *testing.T) {
	recv := &script{steps: []step{{reads: []read{
		{data: numbered(1, 3000)}, {data: numbered(2, 1452)}, {data: numbered(3, 1453)},
	}}}}
	c := fakeConn(t, Config{}, everything(), &kernel{}, recv)
	b := make([]byte, 1452)
	n, _, err := c.ReadFrom(b)
	if err != nil || !bytes.Equal(b[:n], numbered(2, 1452)) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if _, _, err := c.ReadFrom(b); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("%v", err)
	}
	wantCounters(t, c.Stats(), map[Counter]uint64{DroppedOversize: 2, ReceivedDatagrams: 1})
}

// An error that a read reports belongs to another packet or passes: what came
// before it is delivered and the reader goes on. Only a closed socket and a
// deadline come out.
func TestReadErrorsDoNotEndTheLoop(t *testing.T) {
	for _, errno := range []error{
		syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENOBUFS, syscall.EINTR, syscall.EMSGSIZE,
		&net.OpError{Op: "read", Err: os.NewSyscallError("recvmsg", syscall.ECONNREFUSED)},
	} {
		three := []read{{data: numbered(0, 10)}, {data: numbered(1, 20)}, {data: numbered(2, 30)}}
		recv := &script{steps: []step{{reads: three}, {err: errno}, {reads: three[:1]}}}
		c := fakeConn(t, Config{}, everything(), &kernel{}, recv)
		ms := messages(8, 1452)
		for _, want := range []int{3, 1} {
			if n, err := c.ReadBatch(ms, 0); n != want || err != nil {
				t.Fatalf("%v: %d datagrams, %v, want %d", errno, n, err, want)
			}
		}
		if _, err := c.ReadBatch(ms, 0); !errors.Is(err, net.ErrClosed) {
			t.Fatalf("%v: the end: %v", errno, err)
		}
		wantCounters(t, c.Stats(), map[Counter]uint64{ReceiveErrors: 1, ReceivedDatagrams: 4})
	}
}

// An error that lasts costs no processor, and closing the socket ends the wait.
func TestLastingReadErrorDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recv := &script{end: syscall.ENOBUFS}
		c := &Conn{caps: everything(), closed: make(chan struct{})}
		recv.slots = make([]incoming, 1)
		c.reader = reader{c: c, calls: recv, slots: recv.slots}
		done := make(chan error)
		go func() {
			for {
				if err := c.reader.receive(); err != nil {
					done <- err
					return
				}
			}
		}()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		// 1, 2, 4 ... 64 ms, then 100 ms each.
		if recv.calls < 50 || recv.calls > 120 {
			t.Errorf("%d calls in 10 s", recv.calls)
		}
		close(c.closed)
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v", err)
		}
	})
}

// Datagrams left over from one call come with the next even if the caller mixes
// the kinds of reads.
func TestLeftoversServeEveryKindOfRead(t *testing.T) {
	data := numbered(1, 4*1200)
	recv := &script{steps: []step{{reads: []read{{data: data, control: join(tosMsg, strideMsg), from: from4(7, 99)}}}}}
	c := fakeConn(t, Config{}, everything(), &kernel{}, recv)
	ms := messages(1, 1452)
	if n, err := c.ReadBatch(ms, 0); n != 1 || err != nil || !bytes.Equal(ms[0].Buffers[0][:ms[0].N], data[:1200]) {
		t.Fatal(n, err)
	}
	b, oob := make([]byte, 1500), make([]byte, 128)
	n, oobn, flags, addr, err := c.ReadMsgUDP(b, oob)
	if err != nil || !bytes.Equal(b[:n], data[1200:2400]) || !bytes.Equal(oob[:oobn], tosMsg) || flags != 0 || addr.String() != "10.0.0.7:99" {
		t.Fatal(n, oobn, flags, addr, err)
	}
	n, from, err := c.ReadFrom(b)
	if err != nil || !bytes.Equal(b[:n], data[2400:3600]) || from.String() != "10.0.0.7:99" {
		t.Fatal(n, from, err)
	}
	if n, _, flags, _, err := c.ReadMsgUDP(b, nil); err != nil || !bytes.Equal(b[:n], data[3600:]) || flags&msgCtrunc == 0 {
		t.Fatal(n, flags, err)
	}
}

func TestReadBatchRefusesFlags(t *testing.T) {
	c := fakeConn(t, Config{}, everything(), &kernel{}, nil)
	if _, err := c.ReadBatch(messages(1, 10), syscall.MSG_PEEK); !errors.Is(err, ErrFlags) {
		t.Fatal(err)
	}
	if _, err := c.WriteBatch([]ipv4.Message{{}}, syscall.MSG_DONTROUTE); !errors.Is(err, ErrFlags) {
		t.Fatal(err)
	}
}

// The count of dropped messages wraps at 32 bits and has two sources, one of
// which may be behind.
func TestDropCounterFollowsTheKernel(t *testing.T) {
	var d dropCounter
	var total uint64
	for _, n := range []uint32{5, 3, 5, 100, 1 << 31, 1<<32 - 1, 4, 2, 10} {
		total += uint64(d.advance(n))
	}
	if total != 1<<32+10 {
		t.Fatalf("%d", total)
	}
}

func TestSourceCacheIsBoundedAndShared(t *testing.T) {
	var s sources
	first := s.get(from4(1, 1))
	if s.get(from4(2, 2)) == first || s.get(from4(1, 1)) != first {
		t.Fatal("a source seen before gave a new address")
	}
	for i := range 10 * sourcesKept {
		src := source{port: uint16(i)}
		src.addr[0], src.addr[1] = 0x20, byte(i>>16)
		s.get(src)
	}
	if n := len(s.young) + len(s.old); n > 2*sourcesKept {
		t.Fatalf("%d addresses kept", n)
	}
	if got := s.get(from4(9, 443)); got.String() != "10.0.0.9:443" || len(got.IP) != 4 {
		t.Fatalf("%v, %d bytes", got, len(got.IP))
	}
}
