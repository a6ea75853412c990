package udp

import (
	"net/netip"

	"felix/platform"
)

const (
	// MaxPayloadV4 and MaxPayloadV6 are the largest payloads of one message
	// over IPv4 and IPv6 in bytes, segmented or not: an aggregate is one IP
	// packet until the kernel cuts it.
	MaxPayloadV4 = platform.MaxPayloadV4
	MaxPayloadV6 = platform.MaxPayloadV6

	// oldSegments is the segment limit of kernels from before April 2024
	// (UDP_MAX_SEGMENTS in include/linux/udp.h).
	oldSegments = 64
	// maxIovecs is the kernel's limit on buffers in a message (UIO_MAXIOV), so
	// the largest number of segments that can be tried at all.
	maxIovecs = 1024
)

// limits bound one message.
type limits struct {
	segments int // most datagrams in it; 1: no segmentation
	bytes    int // most payload bytes of an aggregate
	segment  int // largest datagram that may be part of an aggregate
}

// plain allows no aggregates.
var plain = limits{segments: 1}

// take returns how many of the leading datagrams make up the next message, and
// their bytes. All but the last have the size of the first; an empty datagram
// goes alone, for in an aggregate it would vanish. A datagram beyond every limit
// goes alone too: the kernel judges it.
func (l limits) take(datagrams [][]byte) (n, bytes int) {
	size := len(datagrams[0])
	bytes = size
	if size == 0 || size > l.segment {
		return 1, bytes
	}
	for n = 1; n < len(datagrams) && n < l.segments; n++ {
		next := len(datagrams[n])
		if next == 0 || next > size || bytes+next > l.bytes {
			break
		}
		bytes += next
		if next < size {
			n++
			break
		}
	}
	return n, bytes
}

// plan appends the messages for datagrams to dst, in order, until dst is full
// (its capacity) or all are planned. It returns dst and how many datagrams went
// into it. The fields of m other than data, bytes and segment are copied.
func (l limits) plan(dst []outgoing, m outgoing, datagrams [][]byte) ([]outgoing, int) {
	done := 0
	for done < len(datagrams) && len(dst) < cap(dst) {
		n, bytes := l.take(datagrams[done:])
		m.data = datagrams[done : done+n : done+n]
		m.bytes = bytes
		m.segment = 0
		if n > 1 {
			m.segment = len(m.data[0])
		}
		dst = append(dst, m)
		done += n
	}
	return dst, done
}

// maxPayload returns the largest payload of a message to addr.
func maxPayload(addr netip.Addr) int {
	if addr.Is4() || addr.Is4In6() {
		return MaxPayloadV4
	}
	return MaxPayloadV6
}

// cut appends the datagrams of b, size bytes each but for the last, to dst until
// dst is full (its capacity), and returns dst and the rest of b.
func cut(dst [][]byte, b []byte, size int) ([][]byte, []byte) {
	for len(b) > 0 && len(dst) < cap(dst) {
		n := min(size, len(b))
		dst = append(dst, b[:n:n])
		b = b[n:]
	}
	return dst, b
}
