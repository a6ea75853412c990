package session

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"felix/broker"
	"felix/wire"
)

// layout is the form of the event frames of a subscription.
type layout struct {
	owned   bool // with subID; without, the frame is good for every subscriber
	subID   uint64
	offsets bool
}

// bodyAt is where the items begin in a frame of the broker: after header and
// count.
const bodyAt = wire.HeaderLen + countLen

const countLen = 4

// isPlain reports whether frames of this layout are those of the broker.
func (l layout) isPlain() bool { return !l.owned && !l.offsets }

// headLen is how many payload bytes come before the items.
func (l layout) headLen() int {
	n := countLen
	if l.owned {
		n += 8
	}
	if l.offsets {
		n += 8
	}
	return n
}

// append appends everything of a frame that comes before its items, which are
// count items of body bytes, the first one at offset base.
func (l layout) append(dst []byte, base uint64, count, body int) []byte {
	flags := wire.FlagEventBatchShared
	if l.owned {
		flags = wire.FlagEventBatch
	}
	if l.offsets {
		flags |= wire.FlagEventOffsets
	}
	dst = wire.AppendHeader(dst, flags, l.headLen()+body)
	if l.owned {
		dst = binary.BigEndian.AppendUint64(dst, l.subID)
	}
	if l.offsets {
		dst = binary.BigEndian.AppendUint64(dst, base)
	}
	return binary.BigEndian.AppendUint32(dst, uint32(count))
}

// within returns the layout for a frame of body bytes of items that must fit
// into limit. The item that fitted its publish frame fits a shared frame, but
// not always one that carries more fields than the publish did.
func (l layout) within(body, limit int) layout {
	if l.headLen()+body > limit {
		l.owned = false
	}
	if l.headLen()+body > limit {
		l.offsets = false
	}
	return l
}

// eventWriter forms event frames and writes them. Small frames are gathered for
// one write; a large one is written from the memory that all subscribers share.
// It is used by one goroutine, except for its counters.
type eventWriter struct {
	stream    SendStream
	server    *Server
	maxFrame  int
	maxWrite  int // of gathered frames, and of frames made of single events
	direct    int // frames from this size on are not copied
	maxEvents int // of a frame made of single events
	maxBytes  int // same, payload bytes
	buf       *[]byte

	frames, events, bytes, writes atomic.Uint64
	blocked                       atomic.Int64 // when the write in progress began, Unix ns; 0: none
}

func (w *eventWriter) init(stream SendStream, s *Server) {
	o := s.broker.Options()
	w.stream, w.server = stream, s
	w.maxFrame, w.maxWrite, w.direct = s.cfg.MaxFrameBytes, s.cfg.MaxBytesPerWrite, s.cfg.MaxBytesPerWrite/4
	w.maxEvents, w.maxBytes = o.EventBatchMaxEvents, o.EventBatchMaxBytes
}

// write forms frames of ds and writes them, or leaves them for flush.
func (w *eventWriter) write(l layout, ds []broker.Delivery) error {
	frames, events := 0, 0
	for len(ds) > 0 {
		n := w.run(l, ds)
		var err error
		if n > 1 {
			err = w.merged(l, ds[:n])
			events += n
		} else {
			n = 1
			err = w.single(l, &ds[0])
			events += ds[0].Count - ds[0].Skip
		}
		if err != nil {
			return err
		}
		frames++
		ds = ds[n:]
	}
	w.count(frames, events)
	return nil
}

func (w *eventWriter) count(frames, events int) {
	w.frames.Add(uint64(frames))
	w.events.Add(uint64(events))
	w.server.count.add(EventFrames, uint64(frames))
	w.server.count.add(EventsWritten, uint64(events))
}

// run returns how many of the first deliveries make up one frame of single
// events.
func (w *eventWriter) run(l layout, ds []broker.Delivery) int {
	n, bytes, size := 0, 0, wire.HeaderLen+l.headLen()
	for n < len(ds) && n < w.maxEvents {
		d := &ds[n]
		bytes += d.Bytes
		size += len(d.Frame) - bodyAt
		if d.Count != 1 || d.Skip != 0 || len(d.Frame) >= w.direct || bytes > w.maxBytes || size > w.maxWrite {
			break
		}
		if n > 0 && l.offsets && d.FirstSeq != ds[n-1].FirstSeq+1 {
			break
		}
		n++
	}
	return n
}

// open reports whether one more small event could still go into the last frame
// that write would form of ds.
func (w *eventWriter) open(l layout, ds []broker.Delivery) bool {
	for len(ds) > 0 {
		n := w.run(l, ds)
		if n == len(ds) {
			return n < w.maxEvents
		}
		ds = ds[max(n, 1):]
	}
	return false
}

// merged gathers one frame made of single events, which fits into a write.
func (w *eventWriter) merged(l layout, ds []broker.Delivery) error {
	body := 0
	for i := range ds {
		body += len(ds[i].Frame) - bodyAt
	}
	buf, err := w.room(wire.HeaderLen + l.headLen() + body)
	if err != nil {
		return err
	}
	*buf = l.append(*buf, ds[0].FirstSeq, len(ds), body)
	for i := range ds {
		*buf = append(*buf, ds[i].Frame[bodyAt:]...)
	}
	return nil
}

// single writes one delivery as a frame.
func (w *eventWriter) single(l layout, d *broker.Delivery) error {
	if l.isPlain() && d.Skip == 0 {
		return w.data(nil, d.Frame)
	}
	body := d.Frame[bodyAt:]
	if d.Skip > 0 {
		ev, err := wire.ParseEventBatch(wire.FlagEventBatchShared, d.Frame[wire.HeaderLen:])
		if err != nil {
			return err
		}
		body = ev.Items.Slice(d.Skip, d.Count).Body()
	}
	l = l.within(len(body), w.maxFrame)
	var head [wire.MaxEventPrefixLen]byte
	return w.data(l.append(head[:0], d.FirstSeq+uint64(d.Skip), d.Count-d.Skip, len(body)), body)
}

// data writes head and body, or gathers them if they are small.
func (w *eventWriter) data(head, body []byte) error {
	if size := len(head) + len(body); size < w.direct {
		buf, err := w.room(size)
		if err != nil {
			return err
		}
		*buf = append(append(*buf, head...), body...)
		return nil
	}
	if len(head) > 0 {
		buf, err := w.room(len(head))
		if err != nil {
			return err
		}
		*buf = append(*buf, head...)
	}
	if err := w.flush(); err != nil {
		return err
	}
	return w.put(body)
}

// room returns the buffer, in which n bytes are free.
func (w *eventWriter) room(n int) (*[]byte, error) {
	if w.buf != nil && len(*w.buf)+n > w.maxWrite {
		if err := w.flush(); err != nil {
			return nil, err
		}
	}
	if w.buf == nil {
		w.buf = w.server.buffers.Get().(*[]byte)
	}
	return w.buf, nil
}

// flush writes what was gathered.
func (w *eventWriter) flush() error {
	if w.buf == nil {
		return nil
	}
	err := w.put(*w.buf)
	w.release()
	return err
}

// release gives the buffer back, whatever is in it.
func (w *eventWriter) release() {
	if w.buf != nil {
		*w.buf = (*w.buf)[:0]
		w.server.buffers.Put(w.buf)
		w.buf = nil
	}
}

// maxPut bounds one write to the stream, so that a client that takes a large
// frame slowly is told from one that takes nothing.
const maxPut = 256 << 10

// put writes b. It blocks while the client takes nothing.
func (w *eventWriter) put(b []byte) error {
	for len(b) > maxPut {
		if err := w.putPiece(b[:maxPut]); err != nil {
			return err
		}
		b = b[maxPut:]
	}
	return w.putPiece(b)
}

func (w *eventWriter) putPiece(b []byte) error {
	w.blocked.Store(time.Now().UnixNano())
	_, err := w.stream.Write(b)
	w.blocked.Store(0)
	if err != nil {
		return err
	}
	w.bytes.Add(uint64(len(b)))
	w.writes.Add(1)
	w.server.count.add(EventBytes, uint64(len(b)))
	w.server.count.add(EventWrites, 1)
	return nil
}

// blockedFor returns how long the write in progress has been waiting.
func (w *eventWriter) blockedFor(now time.Time) time.Duration {
	at := w.blocked.Load()
	if at == 0 {
		return 0
	}
	return max(0, now.Sub(time.Unix(0, at)))
}
