package udp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/ipv4"
)

// families are the kinds of sockets and the address a peer reaches them at.
var families = []struct {
	name         string
	network      string
	rx, tx, dest string // listen addresses; dest is what the sender uses, "" for rx's own
}{
	{"IPv4", "udp4", "127.0.0.1:0", "127.0.0.1:0", ""},
	{"IPv6", "udp6", "[::1]:0", "[::1]:0", ""},
	{"dual stack to IPv4", "udp", ":0", ":0", "127.0.0.1"},
	{"dual stack to IPv6", "udp", ":0", ":0", "::1"},
	{"dual stack to v4-mapped", "udp", ":0", ":0", "::ffff:127.0.0.1"},
}

// pair opens a receiver and a sender and returns where to send.
func pair(t testing.TB, i int, cfg Config) (rx, tx *Conn, to netip.AddrPort) {
	t.Helper()
	f := families[i]
	rx, tx = open(t, f.network, f.rx, cfg), open(t, f.network, f.tx, cfg)
	to = addrOf(rx)
	if f.dest != "" {
		to = netip.AddrPortFrom(netip.MustParseAddr(f.dest), to.Port())
	}
	return rx, tx, to
}

func TestTransferOverEveryFamily(t *testing.T) {
	for i, f := range families {
		t.Run(f.name, func(t *testing.T) {
			rx, tx, to := pair(t, i, envConfig(t))
			want := batch(append(append(repeat(60, 1452), 77, 0, 1200, 1200, 16336, 16336, 16336, 9000), 65000)...)
			n, err := tx.WriteDatagrams(want, nil, to)
			if n != len(want) || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
			ds := receiveN(t, rx, len(want))
			wantData(t, ds, want)
			for _, d := range ds {
				if d.from.Port() != addrOf(tx).Port() || !d.from.Addr().Unmap().IsLoopback() {
					t.Fatalf("from %v", d.from)
				}
			}
			wantCounters(t, tx.Stats(), map[Counter]uint64{SentDatagrams: uint64(n), LostDatagrams: 0, TooLargeDatagrams: 0})
			wantCounters(t, rx.Stats(), map[Counter]uint64{ReceivedDatagrams: uint64(n), ReceiveErrors: 0, OverflowDrops: 0})
		})
	}
}

// The way quic-go sends: one buffer, a segment size, control data.
func TestSegmentedBufferArrives(t *testing.T) {
	for i, f := range families {
		rx, tx, to := pair(t, i, envConfig(t))
		for _, size := range []int{1, 7, 500, 1200, 1452, 4096, 8952, 16336, 40000} {
			b := numbered(size, min(3*MaxPayloadV4, 300*size+size/2+1))
			oob := AppendSegmentSize(AppendECN(nil, to.Addr(), ECT0), uint16(size))
			if bytes.Equal(oob, AppendECN(nil, to.Addr(), ECT0)) {
				b = b[:min(size, len(b))] // a system without such a message sends one datagram
			}
			n, oobn, err := tx.WriteMsgUDP(b, oob, net.UDPAddrFromAddrPort(to))
			if n != len(b) || oobn != len(oob) || err != nil {
				t.Fatalf("%s, size %d: %d, %d, %v", f.name, size, n, oobn, err)
			}
			var got []byte
			for _, d := range receiveN(t, rx, (len(b)+size-1)/size) {
				if len(d.data) != size && len(got)+len(d.data) != len(b) {
					t.Fatalf("%s, size %d: a datagram of %d bytes", f.name, size, len(d.data))
				}
				got = append(got, d.data...)
			}
			if !bytes.Equal(got, b) {
				t.Fatalf("%s, size %d: bytes changed", f.name, size)
			}
		}
	}
}

// ECN over IPv4 on a dual-stack socket needs the IPv4 control message.
func TestECNArrivesBothWays(t *testing.T) {
	for i, f := range families {
		t.Run(f.name, func(t *testing.T) {
			cfg := envConfig(t)
			a, b, toA := pair(t, i, cfg)
			toB := netip.AddrPortFrom(toA.Addr(), addrOf(b).Port())
			for _, e := range []ECN{ECT0, ECT1, CE, NotECT} {
				for _, x := range []struct {
					rx, tx *Conn
					to     netip.AddrPort
				}{{a, b, toA}, {b, a, toB}} {
					if n, err := x.tx.WriteDatagrams(batch(1200, 1200, 1200, 5), AppendECN(nil, x.to.Addr(), e), x.to); n != 4 || err != nil {
						t.Fatal(n, err)
					}
					for _, d := range receiveN(t, x.rx, 4) {
						got, ok := ParseECN(d.oob)
						switch on := x.rx.Capabilities().ECN.Active; {
						case on && (!ok || got != e):
							t.Errorf("sent %02b, received %02b, %v", e, got, ok)
						case !on && ok:
							t.Errorf("received %02b although switched off", got)
						}
					}
				}
			}
		})
	}
}

// With ECN off nothing leaves marked, whatever the caller asks for.
func TestECNOffSendsUnmarked(t *testing.T) {
	cfg := envConfig(t)
	cfg.ECN = Auto
	rx := open(t, "udp4", "127.0.0.1:0", cfg)
	cfg.ECN = Off
	tx := open(t, "udp4", "127.0.0.1:0", cfg)
	to := addrOf(rx)
	if _, err := tx.WriteDatagrams(batch(10), AppendECN(nil, to.Addr(), CE), to); err != nil {
		t.Fatal(err)
	}
	if e, ok := ParseECN(receiveN(t, rx, 1)[0].oob); e != NotECT {
		t.Errorf("received %02b, %v", e, ok)
	}
}

// combination is one setting of the four throughput switches.
type combination [4]bool

func (c combination) String() string {
	s := ""
	for i, name := range [...]string{"gso", "gro", "sendmmsg", "recvmmsg"} {
		if !c[i] {
			name = "-" + name
		}
		s += " " + name
	}
	return s[1:]
}

func (c combination) config() Config {
	v := [4]Switch{}
	for i := range c {
		if !c[i] {
			v[i] = Off
		}
	}
	return Config{GSO: v[0], GRO: v[1], SendMMsg: v[2], RecvMMsg: v[3]}
}

func combinations() []combination {
	var all []combination
	for i := range 16 {
		all = append(all, combination{i&1 == 0, i&2 == 0, i&4 == 0, i&8 == 0})
	}
	return all
}

// A sustained transfer with a window of what is in flight loses nothing and
// changes nothing, whatever is switched off on either side, at every packet size.
func TestTransfersLoseNothing(t *testing.T) {
	sizes := []int{1200, 1452, 8952, 16336}
	total := 12 << 20
	if testing.Short() {
		total = 2 << 20
	}
	for i, combo := range combinations() {
		t.Run(combo.String(), func(t *testing.T) {
			t.Parallel()
			for k, size := range sizes {
				transfer(t, combo.config(), (i+k)%len(families), size, total/len(sizes))
			}
		})
	}
}

// transfer sends about total bytes in datagrams of a size, at most some 60 in
// flight, and checks every one.
func transfer(t *testing.T, cfg Config, family, size, total int) {
	t.Helper()
	rx, tx, to := pair(t, family, cfg)
	n := total / size
	const inFlight = 60
	credit := make(chan struct{}, inFlight)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		defer cancel()
		receiveInOrder(t, rx, n, size, credit)
	})
	sendInWindow(ctx, t, tx, to, n, size, inFlight, credit)
	wg.Wait()
	s, r := tx.Stats(), rx.Stats()
	wantCounters(t, s, map[Counter]uint64{SentDatagrams: uint64(n), LostDatagrams: 0, TooLargeDatagrams: 0, PeerDowngrades: 0})
	wantCounters(t, r, map[Counter]uint64{ReceivedDatagrams: uint64(n), OverflowDrops: 0, DroppedStride: 0, DroppedControl: 0})
	if s.Refusals() != 0 {
		t.Errorf("refusals: %v", s.Map())
	}
}

func receiveInOrder(t *testing.T, rx *Conn, n, size int, credit chan<- struct{}) {
	ms := messages(8, size)
	for got := 0; got < n; {
		k, err := rx.ReadBatch(ms, 0)
		if err != nil {
			t.Errorf("after %d of %d datagrams: %v", got, n, err)
			return
		}
		for _, m := range ms[:k] {
			if !bytes.Equal(m.Buffers[0][:m.N], numbered(got, size)) {
				t.Errorf("datagram %d is %d (%d bytes)", got, binary.BigEndian.Uint32(m.Buffers[0]), m.N)
				return
			}
			got++
			credit <- struct{}{}
		}
	}
}

func sendInWindow(ctx context.Context, t *testing.T, tx *Conn, to netip.AddrPort, n, size, inFlight int, credit <-chan struct{}) {
	open := inFlight
	for sent := 0; sent < n; {
		k := min(1+sent%45, n-sent, open)
		if k == 0 {
			select {
			case <-credit:
				open++
			case <-ctx.Done():
				t.Errorf("stuck at %d of %d", sent, n)
				return
			}
			continue
		}
		var ds [][]byte
		for i := range k {
			ds = append(ds, numbered(sent+i, size))
		}
		var err error
		if sent%2 == 0 {
			_, err = tx.WriteDatagrams(ds, nil, to)
		} else {
			err = writeSegments(tx, ds, to)
		}
		if err != nil {
			t.Error(err)
			return
		}
		sent, open = sent+k, open-k
	}
	for open < inFlight {
		select {
		case <-credit:
			open++
		case <-ctx.Done():
			return
		}
	}
}

// writeSegments sends as quic-go does, where the system has a segment message.
func writeSegments(c *Conn, ds [][]byte, to netip.AddrPort) error {
	oob := AppendSegmentSize(nil, uint16(len(ds[0])))
	if len(oob) == 0 {
		_, err := c.WriteDatagrams(ds, nil, to)
		return err
	}
	_, _, err := c.WriteMsgUDP(bytes.Join(ds, nil), oob, net.UDPAddrFromAddrPort(to))
	return err
}

// Messages to several destinations share a call, and neighbours an aggregate.
func TestWriteBatchOfMessages(t *testing.T) {
	cfg := envConfig(t)
	a, b, tx := open(t, "udp4", "127.0.0.1:0", cfg), open(t, "udp4", "127.0.0.1:0", cfg), open(t, "udp4", "127.0.0.1:0", cfg)
	addr := func(c *Conn) *net.UDPAddr { return net.UDPAddrFromAddrPort(addrOf(c)) }
	var ms []ipv4.Message
	var wantA, wantB [][]byte
	for i := range 300 {
		d := numbered(i, 1200)
		m := ipv4.Message{Buffers: [][]byte{d}, Addr: addr(a)}
		switch {
		case i%50 < 10:
			m.Addr = addr(b)
			wantB = append(wantB, d)
		case i%50 == 20:
			m.OOB = AppendECN(nil, addrOf(a).Addr(), ECT1)
			wantA = append(wantA, d)
		case i%50 == 30:
			m.OOB = AppendSegmentSize(nil, 500)
			if len(m.OOB) > 0 {
				wantA = append(wantA, d[:500], d[500:1000], d[1000:])
			} else {
				wantA = append(wantA, d)
			}
		default:
			wantA = append(wantA, d)
		}
		ms = append(ms, m)
	}
	if n, err := tx.WriteBatch(ms, 0); n != len(ms) || err != nil {
		t.Fatal(n, err)
	}
	wantData(t, receiveN(t, a, len(wantA)), wantA)
	wantData(t, receiveN(t, b, len(wantB)), wantB)
	for i, m := range ms {
		if m.N != 1200 {
			t.Fatalf("message %d: N = %d", i, m.N)
		}
	}
	s := tx.Stats()
	if tx.Capabilities().GSO.Active && tx.Capabilities().SendMMsg.Active && s.Get(SendCalls) > 20 {
		t.Errorf("%d calls for %d messages", s.Get(SendCalls), len(ms))
	}
}

// A message that cannot be sent at all ends the batch there; those before it
// have left.
func TestWriteBatchStopsAtABadMessage(t *testing.T) {
	cfg := envConfig(t)
	rx, tx := open(t, "udp4", "127.0.0.1:0", cfg), open(t, "udp4", "127.0.0.1:0", cfg)
	to := net.UDPAddrFromAddrPort(addrOf(rx))
	good := ipv4.Message{Buffers: [][]byte{numbered(1, 10)}, Addr: to}
	for want, bad := range map[error]ipv4.Message{
		ErrAddress: {Buffers: good.Buffers},
		ErrBuffers: {Buffers: [][]byte{{1}, {2}}, Addr: to},
	} {
		n, err := tx.WriteBatch([]ipv4.Message{good, good, bad, good}, 0)
		if n != 2 || !errors.Is(err, want) {
			t.Errorf("%v: %d, %v", want, n, err)
		}
		wantData(t, receiveN(t, rx, 2), [][]byte{good.Buffers[0], good.Buffers[0]})
	}
}

func TestBadDestinations(t *testing.T) {
	tx := open(t, "udp4", "127.0.0.1:0", envConfig(t))
	if _, err := tx.WriteTo([]byte{1}, &net.TCPAddr{}); !errors.Is(err, ErrAddress) {
		t.Error(err)
	}
	if _, _, err := tx.WriteMsgUDP([]byte{1}, nil, nil); !errors.Is(err, ErrAddress) {
		t.Error(err)
	}
	if _, err := tx.WriteTo([]byte{1}, &net.UDPAddr{IP: net.IPv6loopback, Port: 9}); err == nil {
		t.Error("an IPv6 destination on an IPv4 socket was accepted")
	}
	if _, err := tx.WriteDatagrams([][]byte{{1}}, nil, netip.AddrPort{}); !errors.Is(err, ErrAddress) {
		t.Error(err)
	}
}

// An address without an IP means this host, as in package net.
func TestDestinationWithoutIP(t *testing.T) {
	for _, network := range []string{"udp4", "udp"} {
		rx := open(t, network, ":0", envConfig(t))
		if _, err := rx.WriteTo([]byte("x"), &net.UDPAddr{Port: int(addrOf(rx).Port())}); err != nil {
			t.Fatal(network, err)
		}
		wantData(t, receiveN(t, rx, 1), [][]byte{[]byte("x")})
	}
}

func TestCloseEndsReadsAndSends(t *testing.T) {
	c := open(t, "udp4", "127.0.0.1:0", envConfig(t))
	done := make(chan error, 1)
	go func() {
		_, err := c.ReadBatch(messages(8, 1500), 0)
		done <- err
	}()
	runtime.Gosched()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("the read did not end")
	}
	to := netip.MustParseAddrPort("127.0.0.1:9")
	if _, err := c.WriteDatagrams(batch(1), nil, to); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if _, err := c.WriteTo([]byte{1}, net.UDPAddrFromAddrPort(to)); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if _, _, err := c.ReadFrom(make([]byte, 10)); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if err := c.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	c.Stats() // still answers
}

func TestReadDeadline(t *testing.T) {
	c := open(t, "udp4", "127.0.0.1:0", envConfig(t))
	done := make(chan error, 1)
	go func() {
		_, err := c.ReadBatch(messages(8, 1500), 0)
		done <- err
	}()
	if err := c.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	err := <-done
	var timeout net.Error
	if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Fatalf("%v", err)
	}
	c.SetReadDeadline(time.Now().Add(patience))
	if _, err := c.WriteTo([]byte("x"), c.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	wantData(t, receiveN(t, c, 1), [][]byte{[]byte("x")})
}

// Sends of many goroutines through one socket all arrive, each one's in order.
func TestConcurrentSenders(t *testing.T) {
	cfg := envConfig(t)
	rx, tx := open(t, "udp4", "127.0.0.1:0", cfg), open(t, "udp4", "127.0.0.1:0", cfg)
	const senders, each = 8, 200
	var wg sync.WaitGroup
	for id := range senders {
		wg.Go(func() {
			for i := 0; i < each; i += 10 {
				var ds [][]byte
				for k := range 10 {
					d := make([]byte, 300)
					binary.BigEndian.PutUint32(d, uint32(id))
					binary.BigEndian.PutUint32(d[4:], uint32(i+k))
					ds = append(ds, d)
				}
				if n, err := tx.WriteDatagrams(ds, nil, addrOf(rx)); n != 10 || err != nil {
					t.Error(n, err)
				}
				tx.Stats()
				tx.Capabilities()
			}
		})
	}
	next := [senders]uint32{}
	for _, d := range receiveN(t, rx, senders*each) {
		id, i := binary.BigEndian.Uint32(d.data), binary.BigEndian.Uint32(d.data[4:])
		if next[id] != i {
			t.Fatalf("sender %d: datagram %d, want %d", id, i, next[id])
		}
		next[id]++
	}
	wg.Wait()
}

// Several readers share the datagrams.
func TestConcurrentReaders(t *testing.T) {
	cfg := envConfig(t)
	rx, tx := open(t, "udp4", "127.0.0.1:0", cfg), open(t, "udp4", "127.0.0.1:0", cfg)
	const n = 400
	var mu sync.Mutex
	seen := map[uint32]int{}
	all := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			ms := messages(3, 1500)
			for {
				k, err := rx.ReadBatch(ms, 0)
				if err != nil {
					return
				}
				mu.Lock()
				for _, m := range ms[:k] {
					seen[binary.BigEndian.Uint32(m.Buffers[0])]++
				}
				if len(seen) == n {
					close(all)
				}
				mu.Unlock()
			}
		})
	}
	for i := 0; i < n; i += 20 {
		var ds [][]byte
		for k := range 20 {
			ds = append(ds, numbered(i+k, 900))
		}
		if _, err := tx.WriteDatagrams(ds, nil, addrOf(rx)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-all:
	case <-time.After(patience):
		t.Error("not everything arrived")
	}
	rx.Close()
	wg.Wait()
	if len(seen) != n {
		t.Errorf("%d of %d", len(seen), n)
	}
	for i, times := range seen {
		if times != 1 {
			t.Errorf("datagram %d arrived %d times", i, times)
		}
	}
}

func TestAdopt(t *testing.T) {
	uc, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer uc.Close()
	f, err := uc.File()
	if err != nil {
		t.Fatal(err)
	}
	tx := open(t, "udp4", "127.0.0.1:0", envConfig(t))
	// The datagram that arrived before the socket was ours is answered too.
	if _, err := tx.WriteTo([]byte("early"), uc.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	c, err := Adopt(f, envConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	defer c.Close()
	c.SetReadDeadline(time.Now().Add(patience))
	wantData(t, receiveN(t, c, 1), [][]byte{[]byte("early")})
	own := open(t, "udp4", "127.0.0.1:0", envConfig(t))
	if c.Granted() != own.Granted() || c.Capabilities() != own.Capabilities() {
		t.Errorf("adopted: %+v %+v\nown:     %+v %+v", c.Granted(), c.Capabilities(), own.Granted(), own.Capabilities())
	}
}

func TestAdoptRefusesOtherFiles(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	f, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if c, err := Adopt(f, Config{}); err == nil {
		c.Close()
		t.Error("a TCP socket was adopted")
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if c, err := Adopt(null, Config{}); err == nil {
		c.Close()
		t.Error("a file was adopted")
	}
}

func TestRawReadsAndWritesAreRefused(t *testing.T) {
	c := open(t, "udp4", "127.0.0.1:0", envConfig(t))
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	f := func(uintptr) bool { t.Error("was let through"); return true }
	if err := raw.Read(f); !errors.Is(err, ErrRawIO) {
		t.Error(err)
	}
	if err := raw.Write(f); !errors.Is(err, ErrRawIO) {
		t.Error(err)
	}
	c.Close()
	if err := raw.Control(func(uintptr) {}); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

func TestListenErrorsSayWhat(t *testing.T) {
	busy := open(t, "udp4", "127.0.0.1:0", envConfig(t))
	for _, addr := range []string{addrOf(busy).String(), "256.1.1.1:0", "127.0.0.1:99999", "no port"} {
		c, err := Listen("udp4", addr, envConfig(t))
		if err == nil {
			c.Close()
			t.Errorf("%s: opened", addr)
			continue
		}
		if msg := fmt.Sprint(err); len(msg) < 10 || msg[:4] != "udp:" {
			t.Errorf("%s: %s", addr, msg)
		}
	}
}
