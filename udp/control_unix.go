//go:build linux || darwin || freebsd

package udp

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// nextControl takes the first control message off b. all is that message with
// its header and as much of its padding as b has.
func nextControl(b []byte) (kind controlKind, data, all, rest []byte, err error) {
	hdr, data, rest, err := unix.ParseOneSocketControlMessage(b)
	if err != nil {
		return 0, nil, nil, nil, err
	}
	return kindOfControl(int(hdr.Level), int(hdr.Type)), data, b[:len(b)-len(rest)], rest, nil
}

// receivedControl reads the control data of a received message. It moves what
// the caller gets to see to the front of b, in the order in which it came; the
// rest of b is lost.
func receivedControl(b []byte, withECN bool) (received, error) {
	r := received{kept: b[:0]}
	strides := 0
	for len(b) > 0 {
		kind, data, all, rest, err := nextControl(b)
		if err != nil {
			return received{}, ErrControl
		}
		switch {
		case kind == strideControl:
			// "A 4-byte integer", and one of them; anything else is not to be trusted.
			strides++
			if len(data) != 4 || strides > 1 {
				return received{}, ErrControl
			}
			if r.stride = int(int32(binary.NativeEndian.Uint32(data))); r.stride == 0 {
				r.stride = -1
			}
		case kind == dropsControl:
			if len(data) != 4 {
				return received{}, ErrControl
			}
			r.drops, r.hasDrops = binary.NativeEndian.Uint32(data), true
		case kind == ecnControl && !withECN:
		default:
			r.kept = append(r.kept, all...)
		}
		b = rest
	}
	return r, nil
}

// copyControl copies whole control messages to dst as far as they fit. flags is
// MSG_CTRUNC if some did not.
func copyControl(dst, control []byte) (n, flags int) {
	if len(control) <= len(dst) {
		return copy(dst, control), 0
	}
	for len(control) > 0 {
		_, _, all, rest, err := nextControl(control)
		if err != nil || n+len(all) > len(dst) {
			break
		}
		n += copy(dst[n:], all)
		control = rest
	}
	return n, unix.MSG_CTRUNC
}

// sendControl appends the caller's control data for a send to dst, without the
// segment size, which it returns (0 if there is none), and without ECN bits
// unless withECN. What it appends has the padding that a further message needs.
func sendControl(dst, oob []byte, withECN bool) (kept []byte, segment int, err error) {
	kept = dst
	for len(oob) > 0 {
		kind, data, all, rest, err := nextControl(oob)
		if err != nil {
			return dst, 0, ErrControl
		}
		switch {
		case kind == segmentSize:
			if len(data) != 2 {
				return dst, 0, ErrControl
			}
			segment = int(binary.NativeEndian.Uint16(data))
		case kind == ecnControl && !withECN:
		default:
			kept = append(kept, all...)
			kept = append(kept, padding[:unix.CmsgSpace(len(data))-len(all)]...)
		}
		oob = rest
	}
	return kept, segment, nil
}

// padding is the most that lies between two control messages.
var padding [8]byte

// appendControl appends a control message with the given data to b, whose length
// must be a multiple of the system's alignment.
func appendControl(b []byte, level, typ int, data []byte) []byte {
	at := len(b)
	space := unix.CmsgSpace(len(data))
	for range space {
		b = append(b, 0)
	}
	h := (*unix.Cmsghdr)(unsafe.Pointer(&b[at]))
	h.Level = int32(level)
	h.Type = int32(typ)
	h.SetLen(unix.CmsgLen(len(data)))
	copy(b[at+unix.CmsgLen(0):], data)
	return b
}

// AppendECN appends to oob the control message that marks a datagram to the
// destination with the codepoint. An IPv4 destination takes the IPv4 message on
// an IPv6 socket too, where the kernel ignores the IPv6 one.
func AppendECN(oob []byte, to netip.Addr, e ECN) []byte {
	if to.Is4() || to.Is4In6() {
		var data [4]byte
		data[0] = byte(e)
		if tosSize == 4 {
			binary.NativeEndian.PutUint32(data[:], uint32(e))
		}
		return appendControl(oob, unix.IPPROTO_IP, unix.IP_TOS, data[:tosSize])
	}
	var data [4]byte
	binary.NativeEndian.PutUint32(data[:], uint32(e))
	return appendControl(oob, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, data[:])
}

// AppendSegmentSize appends to oob the control message that has WriteMsgUDP cut
// its buffer into datagrams of size bytes, on systems that have such a message.
func AppendSegmentSize(oob []byte, size uint16) []byte {
	if segmentControl.level == -1 {
		return oob
	}
	var data [2]byte
	binary.NativeEndian.PutUint16(data[:], size)
	return appendControl(oob, segmentControl.level, segmentControl.name, data[:])
}

// ParseECN returns the codepoint in the control data of a received datagram. It
// returns false if there is none or the data is malformed.
func ParseECN(oob []byte) (ECN, bool) {
	for len(oob) > 0 {
		kind, data, _, rest, err := nextControl(oob)
		if err != nil {
			return 0, false
		}
		if kind == ecnControl {
			switch len(data) {
			case 1: // IPv4: the TOS byte
				return ECN(data[0] & ecnMask), true
			case 4: // IPv6: an int
				return ECN(binary.NativeEndian.Uint32(data) & ecnMask), true
			}
			return 0, false
		}
		oob = rest
	}
	return 0, false
}
