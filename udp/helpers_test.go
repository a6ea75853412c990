package udp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/ipv4"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// envConfig is the default configuration with the switches of the environment,
// so that the suite can run with each feature off.
func envConfig(t testing.TB) Config {
	t.Helper()
	var c Config
	if err := c.ApplyEnv(os.LookupEnv); err != nil {
		t.Fatal(err)
	}
	return c
}

// patience bounds every wait of a test on a loaded machine.
const patience = 30 * time.Second

// open opens a socket that closes with the test.
func open(t testing.TB, network, addr string, cfg Config) *Conn {
	t.Helper()
	c, err := Listen(network, addr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

func addrOf(c *Conn) netip.AddrPort {
	ap := c.LocalAddr().(*net.UDPAddr).AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// messages makes n messages with room for size bytes and the control data that
// quic-go has room for.
func messages(n, size int) []ipv4.Message {
	ms := make([]ipv4.Message, n)
	for i := range ms {
		ms[i].Buffers = [][]byte{make([]byte, size)}
		ms[i].OOB = make([]byte, 128)
	}
	return ms
}

// datagram is what a test received.
type datagram struct {
	data []byte
	oob  []byte
	from netip.AddrPort
}

// receiveN reads n datagrams, eight a call as quic-go does.
func receiveN(t testing.TB, c *Conn, n int) []datagram {
	t.Helper()
	ms := messages(8, maxRead)
	var got []datagram
	for len(got) < n {
		k, err := c.ReadBatch(ms, 0)
		if err != nil {
			t.Fatalf("after %d of %d datagrams: %v", len(got), n, err)
		}
		for _, m := range ms[:k] {
			got = append(got, datagram{
				data: bytes.Clone(m.Buffers[0][:m.N]),
				oob:  bytes.Clone(m.OOB[:m.NN]),
				from: m.Addr.(*net.UDPAddr).AddrPort(),
			})
		}
	}
	if len(got) != n {
		t.Fatalf("received %d datagrams, want %d", len(got), n)
	}
	return got
}

// numbered makes a datagram of a size whose bytes tell its number.
func numbered(i, size int) []byte {
	b := make([]byte, size)
	for k := range b {
		b[k] = byte(i*31 + k)
	}
	if size >= 4 {
		binary.BigEndian.PutUint32(b, uint32(i))
	}
	return b
}

// batch makes datagrams of the given sizes.
func batch(sizes ...int) [][]byte {
	ds := make([][]byte, len(sizes))
	for i, size := range sizes {
		ds[i] = numbered(i, size)
	}
	return ds
}

func repeat(n, size int) []int {
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = size
	}
	return sizes
}

func wantData(t testing.TB, got []datagram, want [][]byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d datagrams, want %d", len(got), len(want))
	}
	for i := range want {
		if !bytes.Equal(got[i].data, want[i]) {
			t.Fatalf("datagram %d: %d bytes %.16x, want %d bytes %.16x", i, len(got[i].data), got[i].data, len(want[i]), want[i])
		}
	}
}

// wantCounters compares some counters, by name for a readable table.
func wantCounters(t testing.TB, s Stats, want map[Counter]uint64) {
	t.Helper()
	for c, v := range want {
		if got := s.Get(c); got != v {
			t.Errorf("%v = %d, want %d", c, got, v)
		}
	}
}

// kernel is a fake system-call layer. It accepts messages by the kernel's rules
// and by those of the test, and records what it accepted. Like sendmmsg, it
// loses the errno of a message that is not the first of a call.
type kernel struct {
	mu       sync.Mutex
	segments int                             // limit on segments, 128 if 0
	refuse   func(m *outgoing) syscall.Errno // asked first
	accepted []sentMessage
	calls    int
}

type sentMessage struct {
	data    [][]byte
	segment int
	to      netip.AddrPort
	control []byte
}

func (k *kernel) send(ms []outgoing) (accepted, calls, waits int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls++
	for i := range ms {
		if errno := k.judge(&ms[i]); errno != 0 {
			if i > 0 {
				return i, 1, 0, nil
			}
			return 0, 1, 0, errno
		}
		k.record(&ms[i])
	}
	return len(ms), 1, 0, nil
}

func (k *kernel) judge(m *outgoing) syscall.Errno {
	if (m.segment == 0) != (len(m.data) == 1) {
		panic(fmt.Sprintf("%d datagrams in a message with segment size %d", len(m.data), m.segment))
	}
	if k.refuse != nil {
		if errno := k.refuse(m); errno != 0 {
			return errno
		}
	}
	limit := k.segments
	if limit == 0 {
		limit = 128
	}
	switch {
	case m.bytes > maxPayload(m.to.Addr()):
		return syscall.EMSGSIZE
	case len(m.data) > limit:
		return syscall.EINVAL
	}
	return 0
}

func (k *kernel) record(m *outgoing) {
	s := sentMessage{segment: m.segment, to: m.to, control: bytes.Clone(m.control)}
	for _, d := range m.data {
		s.data = append(s.data, bytes.Clone(d))
	}
	k.accepted = append(k.accepted, s)
}

// datagrams returns what left, in order, as it would arrive.
func (k *kernel) datagrams() []datagram {
	k.mu.Lock()
	defer k.mu.Unlock()
	var ds []datagram
	for _, m := range k.accepted {
		for _, d := range m.data {
			ds = append(ds, datagram{data: d})
		}
	}
	return ds
}

// shape returns the number of datagrams of each message accepted.
func (k *kernel) shape() []int {
	k.mu.Lock()
	defer k.mu.Unlock()
	var n []int
	for _, m := range k.accepted {
		n = append(n, len(m.data))
	}
	return n
}

func (k *kernel) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.accepted, k.calls = nil, 0
}

// script is a fake receiver: one entry a call.
type script struct {
	slots []incoming
	steps []step
	calls int
	end   error // when the steps are used up
}

type step struct {
	reads []read
	err   error
}

// read is one message of the fake kernel.
type read struct {
	data              []byte
	control           []byte
	truncated, ctrunc bool
	from              source
}

func (s *script) receive() (n, calls, empty int, err error) {
	s.calls++
	if len(s.steps) == 0 {
		return 0, 1, 0, s.end
	}
	st := s.steps[0]
	s.steps = s.steps[1:]
	for i, r := range st.reads {
		in := &s.slots[i]
		in.n, in.nn = copy(in.buf, r.data), copy(in.control, r.control)
		in.truncated, in.ctrunc, in.from = r.truncated, r.ctrunc, r.from
	}
	return len(st.reads), 1, 0, st.err
}

// everything is a set of capabilities with all features active.
func everything() Capabilities {
	on := Feature{Active: true}
	return Capabilities{GSO: on, GRO: on, SendMMsg: on, RecvMMsg: on, ECN: on, MaxSegments: 128}
}

// fakeConn is a Conn over a fake system-call layer. Its real socket is only
// there to be closed.
func fakeConn(t testing.TB, cfg Config, caps Capabilities, send sender, recv *script) *Conn {
	t.Helper()
	uc, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		uc, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	}
	if err != nil {
		t.Fatal(err)
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	c := &Conn{uc: uc, raw: raw, cfg: cfg, policy: &hostPolicy, opts: newOptions(raw), caps: caps, v6: true}
	c.start(system{
		newSender: func() sender { return send },
		newReceiver: func(slots []incoming) receiver {
			if recv == nil {
				recv = &script{}
			}
			recv.slots = slots
			if recv.end == nil {
				recv.end = net.ErrClosed
			}
			return recv
		},
	})
	t.Cleanup(func() { c.Close() })
	return c
}

var (
	peerA = netip.MustParseAddrPort("192.0.2.1:1001")
	peerB = netip.MustParseAddrPort("192.0.2.2:1002")
	peer6 = netip.MustParseAddrPort("[2001:db8::1]:1003")
)
