package udp

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"testing"
)

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
