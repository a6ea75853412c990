package broker

// ring holds the newest events of a stream for replay: logically the last
// maxEvents single events, physically the whole frames that hold them. The
// stream's lock guards it.
type ring struct {
	maxEvents int // at most 0: keeps nothing
	maxBytes  int64

	frames deque[Delivery]
	events int   // in frames
	bytes  int64 // frame bytes in frames
	next   uint64
}

// append numbers d, keeps it, and returns it with its number.
func (r *ring) append(d Delivery, evicted *Tally) Delivery {
	d.FirstSeq = r.next
	r.next += uint64(d.Count)
	if r.maxEvents <= 0 {
		return d
	}
	r.frames.push(d)
	r.events += d.Count
	r.bytes += int64(len(d.Frame))
	for r.frames.len() > 1 && (r.events-r.frames.at(0).Count >= r.maxEvents || r.bytes > r.maxBytes) {
		old := r.frames.pop()
		r.events -= old.Count
		r.bytes -= int64(len(old.Frame))
		evicted.add(old.Count, old.Bytes)
	}
	return d
}

// oldest returns the number of the oldest event that a subscriber can start at;
// it is next when nothing is held.
func (r *ring) oldest() uint64 {
	return r.next - uint64(max(0, min(r.events, r.maxEvents)))
}

// from returns the frames that hold the events from seq on, which must be
// within oldest and next. The events before seq are marked to be skipped.
func (r *ring) from(seq uint64) []Delivery {
	if seq == r.next {
		return nil
	}
	i := r.frames.len() - 1
	for r.frames.at(i).FirstSeq > seq {
		i--
	}
	out := make([]Delivery, 0, r.frames.len()-i)
	for ; i < r.frames.len(); i++ {
		out = append(out, *r.frames.at(i))
	}
	out[0].Skip = int(seq - out[0].FirstSeq)
	return out
}

func (r *ring) clear() {
	r.frames.clear()
	r.events, r.bytes = 0, 0
}
