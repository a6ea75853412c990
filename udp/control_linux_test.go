package udp

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

func u32(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

func cmsg(level, typ int, data []byte) []byte { return appendControl(nil, level, typ, data) }

// Control messages of a coalesced read over IPv4 and IPv6.
var (
	strideMsg = cmsg(unix.IPPROTO_UDP, unix.UDP_GRO, u32(1200))
	dropsMsg  = cmsg(unix.SOL_SOCKET, unix.SO_RXQ_OVFL, u32(7))
	tosMsg    = cmsg(unix.IPPROTO_IP, unix.IP_TOS, []byte{0xb8 | byte(ECT0)})
	tclassMsg = cmsg(unix.IPPROTO_IPV6, unix.IPV6_TCLASS, u32(uint32(CE)))
	info4Msg  = cmsg(unix.IPPROTO_IP, unix.IP_PKTINFO, []byte{1, 0, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2})
	info6Msg  = cmsg(unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, make([]byte, 20))
)

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func TestReceivedControl(t *testing.T) {
	for name, x := range map[string]struct {
		in     []byte
		noECN  bool
		kept   []byte
		stride int
		drops  int // -1: none
		bad    bool
	}{
		"none":             {in: nil, kept: nil, drops: -1},
		"stride first":     {in: join(strideMsg, info4Msg, tosMsg), kept: join(info4Msg, tosMsg), stride: 1200, drops: -1},
		"stride in middle": {in: join(info4Msg, strideMsg, tosMsg), kept: join(info4Msg, tosMsg), stride: 1200, drops: -1},
		"stride last":      {in: join(info6Msg, tclassMsg, strideMsg), kept: join(info6Msg, tclassMsg), stride: 1200, drops: -1},
		"drops":            {in: join(dropsMsg, tosMsg), kept: tosMsg, drops: 7},
		"without ECN":      {in: join(tosMsg, info4Msg, tclassMsg), noECN: true, kept: info4Msg, drops: -1},
		"stride of 0":      {in: cmsg(unix.IPPROTO_UDP, unix.UDP_GRO, u32(0)), stride: -1, drops: -1},
		"stride below 0":   {in: cmsg(unix.IPPROTO_UDP, unix.UDP_GRO, u32(1<<31|5)), stride: -2147483643, drops: -1},
		"stride too short": {in: cmsg(unix.IPPROTO_UDP, unix.UDP_GRO, []byte{1, 2}), bad: true},
		"two strides":      {in: join(strideMsg, strideMsg), bad: true},
		"drops too short":  {in: cmsg(unix.SOL_SOCKET, unix.SO_RXQ_OVFL, []byte{1}), bad: true},
		"cut off":          {in: join(tosMsg, strideMsg)[:len(tosMsg)+10], bad: true},
	} {
		r, err := receivedControl(bytes.Clone(x.in), !x.noECN)
		if (err != nil) != x.bad {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if x.bad {
			continue
		}
		if !bytes.Equal(r.kept, x.kept) || r.stride != x.stride || r.hasDrops != (x.drops >= 0) || r.hasDrops && int(r.drops) != x.drops {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestSendControl(t *testing.T) {
	segment := AppendSegmentSize(nil, 1452)
	for name, x := range map[string]struct {
		in      []byte
		noECN   bool
		kept    []byte
		segment int
		bad     bool
	}{
		"none":         {},
		"quic-go":      {in: join(info4Msg, segment, tosMsg), kept: join(info4Msg, tosMsg), segment: 1452},
		"only segment": {in: segment, segment: 1452},
		"without ECN":  {in: join(info6Msg, segment, tclassMsg), noECN: true, kept: info6Msg, segment: 1452},
		"no padding":   {in: tosMsg[:unix.CmsgLen(1)], kept: tosMsg},
		"wrong size":   {in: cmsg(unix.IPPROTO_UDP, unix.UDP_SEGMENT, u32(9)), bad: true},
		"cut off":      {in: segment[:10], bad: true},
	} {
		before := bytes.Clone(x.in)
		kept, n, err := sendControl(make([]byte, 0, 16), x.in, !x.noECN)
		if (err != nil) != x.bad || n != x.segment || !x.bad && !bytes.Equal(kept, x.kept) {
			t.Errorf("%s: %x, %d, %v", name, kept, n, err)
		}
		if !bytes.Equal(before, x.in) {
			t.Errorf("%s: the caller's control data was changed", name)
		}
	}
}

func TestCopyControl(t *testing.T) {
	all := join(info4Msg, tosMsg)
	for _, x := range []struct {
		room, n, flags int
	}{
		{128, len(all), 0},
		{len(all), len(all), 0},
		{len(all) - 1, len(info4Msg), unix.MSG_CTRUNC},
		{5, 0, unix.MSG_CTRUNC},
		{0, 0, unix.MSG_CTRUNC},
	} {
		dst := make([]byte, x.room)
		n, flags := copyControl(dst, all)
		if n != x.n || flags != x.flags || !bytes.Equal(dst[:n], all[:n]) {
			t.Errorf("room %d: %d, %#x", x.room, n, flags)
		}
	}
}

func TestECNRoundTripThroughControl(t *testing.T) {
	for _, to := range []string{"192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1"} {
		for _, e := range []ECN{NotECT, ECT0, ECT1, CE} {
			oob := AppendECN(bytes.Clone(info4Msg), netip.MustParseAddr(to), e)
			if got, ok := ParseECN(oob); !ok || got != e {
				t.Errorf("%s: %v became %v, %v", to, e, got, ok)
			}
		}
	}
	if e, ok := ParseECN(tosMsg); !ok || e != ECT0 {
		t.Errorf("%v, %v: the other bits of the TOS byte are not ECN", e, ok)
	}
	if _, ok := ParseECN(info4Msg); ok {
		t.Error("found a codepoint where there is none")
	}
}

func FuzzReceivedControl(f *testing.F) {
	f.Add(join(strideMsg, info4Msg, tosMsg), true)
	f.Add(join(info6Msg, tclassMsg, dropsMsg, strideMsg), false)
	f.Add(join(strideMsg, strideMsg), true)
	f.Add(strideMsg[:17], true)
	f.Fuzz(func(t *testing.T, b []byte, ecn bool) {
		in := bytes.Clone(b)
		r, err := receivedControl(in, ecn)
		if err != nil {
			return
		}
		if len(r.kept) > len(b) {
			t.Fatal("more was kept than there was")
		}
		again, err := receivedControl(bytes.Clone(r.kept), ecn)
		if err != nil || !bytes.Equal(again.kept, r.kept) || again.stride != 0 || again.hasDrops {
			t.Fatalf("what was kept reads differently: %+v, %v", again, err)
		}
		dst := make([]byte, 64)
		if n, _ := copyControl(dst, r.kept); n > 0 {
			if _, err := receivedControl(dst[:n], true); err != nil {
				t.Fatal("a copied prefix is malformed")
			}
		}
		ParseECN(r.kept)
	})
}

func FuzzSendControl(f *testing.F) {
	f.Add(join(info4Msg, AppendSegmentSize(nil, 1200), tosMsg), true)
	f.Add(AppendSegmentSize(nil, 0), false)
	f.Fuzz(func(t *testing.T, b []byte, ecn bool) {
		kept, segment, err := sendControl(nil, b, ecn)
		if err != nil {
			return
		}
		if segment < 0 || segment > 65535 || len(kept) > len(b)+len(padding) {
			t.Fatalf("segment %d, %d bytes kept of %d", segment, len(kept), len(b))
		}
		if again, n, err := sendControl(nil, kept, ecn); err != nil || n != 0 || !bytes.Equal(again, kept) {
			t.Fatalf("what was kept reads differently: %d, %v", n, err)
		}
	})
}
