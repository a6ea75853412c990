package udp

// pieces is a received message being handed out datagram by datagram. The zero
// value has nothing left.
type pieces struct {
	rest   []byte
	stride int  // size of every datagram but the last
	more   bool // there is a further datagram, perhaps an empty one
}

// split prepares a message for handing out. stride is the segment size that the
// kernel gave, 0 for a message that is one datagram. It returns false for a
// stride that cannot be.
func split(data []byte, stride int) (pieces, bool) {
	if stride < 0 {
		return pieces{}, false
	}
	if stride == 0 || stride > len(data) {
		stride = len(data)
	}
	return pieces{rest: data, stride: stride, more: true}, true
}

// next returns the next datagram, and false when there is none.
func (p *pieces) next() ([]byte, bool) {
	if !p.more {
		return nil, false
	}
	n := min(p.stride, len(p.rest))
	d := p.rest[:n:n]
	p.rest = p.rest[n:]
	p.more = len(p.rest) > 0
	return d, true
}

// count returns how many datagrams are left.
func (p *pieces) count() int {
	if !p.more {
		return 0
	}
	if p.stride == 0 {
		return 1
	}
	return max(1, (len(p.rest)+p.stride-1)/p.stride)
}
