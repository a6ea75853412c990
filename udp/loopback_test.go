package udp

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/net/ipv4"

	"felix/internal/testkit"
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
	if cfg.ReadBuffer == 0 && rx.Granted().Read.Granted < 1<<20 {
		testkit.Missing(t, "CAP_NET_ADMIN or a receive buffer of 1 MiB (net.core.rmem_max)")
	}
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
