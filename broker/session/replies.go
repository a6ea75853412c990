package session

import (
	"encoding/base64"
	"sync"
	"sync/atomic"
	"time"

	"felix/broker"
	"felix/wire"
)

// replyKind is the shape of a reply.
type replyKind uint8

const (
	replyMessage replyKind = iota // the JSON message msg
	replyAck                      // a binary publish ack
	replyPublish                  // a JSON publish_ok or publish_error
)

// reply is one answer, owed or ready.
type reply struct {
	kind    replyKind
	pending bool // the outcome is not known yet
	id      uint64
	text    string // error text; empty for success
	msg     wire.Message
	cost    int       // bytes of content, which count towards Config.ReplyQueueBytes
	held    int64     // what the connection was charged for it
	owed    time.Time // since when it has been pending
}

// size returns how many bytes the client had a say in.
func (r *reply) size() int {
	switch m := r.msg.(type) {
	case *wire.CacheValue:
		return len(m.Namespace) + len(m.Cache) + len(m.Key) + len(m.Value)
	case *wire.Error:
		return len(m.Message)
	}
	return len(r.text)
}

// largeValue returns the reply if its cache value is written in pieces.
func (r *reply) largeValue() *wire.CacheValue {
	if m, ok := r.msg.(*wire.CacheValue); ok && len(m.Value) > maxGather {
		return m
	}
	return nil
}

// replies is the queue of answers of one control stream. They are written in
// the order in which they were queued, whatever their form and whenever their
// outcome is known. The goroutine that reads the stream queues them, and writes
// them itself before it parks; an outcome that comes later, from a broker
// worker, starts a goroutine that writes until nothing more is ready.
type replies struct {
	w          SendStream
	maxFrame   int
	maxReplies int
	maxBytes   int
	commitWait time.Duration
	stall      time.Duration // for one piece of a write, once finishing is set
	count      *counters
	wg         *sync.WaitGroup // of the connection
	gone       <-chan struct{} // closed with the connection
	held       hold            // of large replies; its share is the connection's
	onWait     func()          // called before the queue waits for the client; may be nil
	stopped    chan struct{}   // closed once nothing can be written any more

	mu      sync.Mutex
	changed sync.Cond // on mu: room was made, everything was written, or writing failed
	queue   []reply   // ring buffer of a power of two; a reply's token modulo its length is its slot
	head    uint64    // token of the oldest reply
	tail    uint64    // token of the next reply
	cost    int       // sum over queue
	writing bool      // somebody is writing
	err     error     // why nothing can be written any more
	lost    bool      // a reply was dropped because of err
	timer   *time.Timer
	armed   bool // timer runs

	finishing atomic.Bool // the stream is not read any more
	scratch   []byte      // owned by whoever set writing
}

// keepScratch is the largest encode buffer that a quiet stream holds on to.
const keepScratch = 4 << 10

// maxGather bounds, in bytes, how many replies are gathered and how much of a
// large one is written at a time.
const maxGather = 32 << 10

func newReplies(w SendStream, s *Server, wg *sync.WaitGroup) *replies {
	q := &replies{
		w: w, maxFrame: s.cfg.MaxFrameBytes, maxReplies: s.cfg.ReplyQueue, maxBytes: s.cfg.ReplyQueueBytes,
		commitWait: s.broker.Options().CommitWait, stall: s.cfg.ReplyStallTimeout, count: &s.count, wg: wg,
		held: hold{share: s.replies.share(s.cfg.ConnReplyBytes)}, stopped: make(chan struct{}),
	}
	q.changed.L = &q.mu
	return q
}

func (q *replies) at(token uint64) *reply { return &q.queue[token&uint64(len(q.queue)-1)] }

// ready reports whether the oldest reply can be written. q.mu is held.
func (q *replies) ready() bool { return q.head != q.tail && !q.at(q.head).pending }

// push queues a reply whose outcome is known. It waits while the queue is full.
func (q *replies) push(r reply) { q.add(r) }

// message queues a JSON message.
func (q *replies) message(m wire.Message) { q.add(reply{kind: replyMessage, msg: m}) }

// reserve queues a reply whose outcome complete will tell.
func (q *replies) reserve(kind replyKind, id uint64) (token uint64) {
	return q.add(reply{kind: kind, id: id, pending: true, owed: time.Now()})
}

func (q *replies) add(r reply) (token uint64) {
	r.cost = r.size()
	if r.cost > smallHold && r.held == 0 {
		q.charge(&r)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.makeRoom(r.cost)
	if q.err != nil {
		q.lost = true
		q.uncharge(&r)
		return q.tail // names no reply, now and later
	}
	if q.tail-q.head == uint64(len(q.queue)) {
		q.grow()
	}
	token = q.tail
	q.tail++
	*q.at(token) = r
	q.cost += r.cost
	if r.pending && token == q.head {
		q.watchHead()
	}
	return token
}

// charge waits until the connection has room for a large reply, and for the text
// that it is encoded to unless that is written in pieces.
func (q *replies) charge(r *reply) {
	n := int64(r.cost)
	if m := r.largeValue(); m != nil {
		n += n - int64(len(m.Value))
	} else {
		n += n
	}
	if q.hold(n) {
		r.held = n
	}
}

// hold charges the connection n bytes for a reply to come, and waits for room. It
// reports false when nothing can be written any more.
func (q *replies) hold(n int64) bool {
	wait := func() {
		if q.onWait != nil {
			q.onWait()
		}
		_ = q.flush() // a failure shows when the reply is queued
	}
	return q.held.take(n, wait, q.gone, q.stopped)
}

// uncharge gives back what charge took.
func (q *replies) uncharge(r *reply) {
	if r.held > 0 {
		q.held.give(r.held)
	}
}

// makeRoom waits until one more reply fits or writing has failed. q.mu is held.
func (q *replies) makeRoom(cost int) {
	for q.err == nil && q.full(cost) {
		if q.ready() && !q.writing {
			q.writing = true
			q.write()
			continue
		}
		if q.onWait != nil {
			q.onWait()
		}
		q.count.add(ReplyQueueFull, 1)
		q.changed.Wait()
	}
}

func (q *replies) full(cost int) bool {
	n := q.tail - q.head
	return n >= uint64(q.maxReplies) || n > 0 && q.cost+cost > q.maxBytes
}

// grow doubles the ring. Whoever is writing reads slots of the old one, which
// stay as they are. q.mu is held.
func (q *replies) grow() {
	bigger := make([]reply, max(8, 2*len(q.queue)))
	for t := q.head; t != q.tail; t++ {
		bigger[t&uint64(len(bigger)-1)] = *q.at(t)
	}
	q.queue = bigger
}

// Complete implements broker.Completer.
func (q *replies) Complete(token uint64, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.settle(token, err)
}

// settle fills in the outcome of a pending reply. One that was settled before,
// or given up, is left alone. q.mu is held.
func (q *replies) settle(token uint64, err error) {
	if token-q.head >= q.tail-q.head || !q.at(token).pending {
		return
	}
	r := q.at(token)
	r.pending = false
	if err != nil {
		r.text = err.Error()
	}
	if token != q.head || q.writing {
		return
	}
	// Whoever reads the stream may be parked: it cannot be left to it.
	q.writing = true
	q.wg.Add(1)
	go func() {
		defer q.wg.Done()
		q.mu.Lock()
		defer q.mu.Unlock()
		q.write()
	}()
}

// flush writes what is ready, unless somebody else is at it. The error says why
// a reply was lost. That the client takes no replies is none as long as there
// are none.
func (q *replies) flush() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.writing && q.ready() && q.err == nil {
		q.writing = true
		q.write()
	}
	if q.lost {
		return q.err
	}
	return nil
}

// finish writes everything that is owed, waiting for outcomes, and returns why a
// reply was lost. Nothing may be queued afterwards. After the call nobody writes
// to the stream.
func (q *replies) finish() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.finishing.Store(true)
	if q.writing {
		q.limit()
	}
	for q.writing || q.err == nil && q.head != q.tail {
		if q.ready() && !q.writing {
			q.writing = true
			q.write()
			continue
		}
		q.changed.Wait()
	}
	if q.timer != nil {
		q.timer.Stop()
	}
	if q.lost {
		q.count.add(RepliesLost, 1)
		return q.err
	}
	return nil
}

// fail gives up everything that is owed, because of err.
func (q *replies) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.giveUp(err)
	if !q.writing {
		q.discard()
	}
	q.changed.Broadcast()
}

// giveUp remembers why nothing can be written any more. q.mu is held.
func (q *replies) giveUp(err error) {
	if q.err == nil {
		q.err = err
		close(q.stopped)
	}
}

// discard forgets what is queued. q.mu is held and nobody is writing.
func (q *replies) discard() {
	q.lost = q.lost || q.head != q.tail
	for t := q.head; t != q.tail; t++ {
		q.uncharge(q.at(t))
	}
	q.head, q.cost, q.queue = q.tail, 0, nil
}

// write writes replies from the head until none is ready. The caller has set
// q.writing and holds q.mu, which is released during writes.
func (q *replies) write() {
	for q.err == nil && q.ready() {
		batch, n := q.queue, uint64(0)
		for q.head+n != q.tail && !q.at(q.head+n).pending {
			n++
		}
		head := q.head
		q.mu.Unlock()
		done, err := q.writeSome(batch, head, n)
		q.mu.Lock()
		q.release(done)
		if err != nil {
			q.lost = true
			q.giveUp(err)
		}
		q.changed.Broadcast()
	}
	q.writing = false
	if q.err != nil {
		q.discard()
	} else if q.head != q.tail {
		q.watchHead()
	}
	q.changed.Broadcast()
}

// release takes the first n replies out of the queue. q.mu is held.
func (q *replies) release(n uint64) {
	for range n {
		r := q.at(q.head)
		q.cost -= r.cost
		q.uncharge(r)
		*r = reply{}
		q.head++
	}
}

// writeSome encodes replies from the n ready ones at token head of ring, as far
// as one write goes, and writes them. It returns how many it took.
func (q *replies) writeSome(ring []reply, head, n uint64) (done uint64, err error) {
	buf := q.scratch[:0]
	for done < n && (done == 0 || len(buf) < maxGather) {
		r := &ring[(head+done)&uint64(len(ring)-1)]
		if m := r.largeValue(); m == nil {
			buf = q.encode(buf, r)
		} else if done > 0 {
			break
		} else if frame, split, err := q.around(buf, m); err == nil {
			q.count.add(Replies, 1)
			q.count.add(ReplyWrites, 1)
			return 1, q.writeValue(frame, split, m.Value)
		} else {
			buf = q.encodeError(buf, err)
		}
		done++
	}
	if cap(buf) <= keepScratch {
		q.scratch = buf
	} else {
		q.scratch = nil
	}
	q.count.add(Replies, done)
	q.count.add(ReplyWrites, 1)
	return done, q.writeAll(buf)
}

// writeAll writes b in pieces.
func (q *replies) writeAll(b []byte) error {
	for len(b) > 0 {
		if q.finishing.Load() {
			q.limit()
		}
		n, err := q.w.Write(b[:min(len(b), maxGather)])
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// around encodes what surrounds a large value, if the client can take it all.
func (q *replies) around(dst []byte, m *wire.CacheValue) (frame []byte, split int, err error) {
	frame, split, err = wire.AppendCacheValueAround(dst, m)
	if err != nil {
		return dst, 0, err
	}
	n := len(frame) - len(dst) - wire.HeaderLen + base64.StdEncoding.EncodedLen(len(m.Value))
	if n > q.maxFrame {
		return dst, 0, &replyTooLargeError{typ: m.Type(), size: n, limit: q.maxFrame}
	}
	return frame, split, nil
}

// writeValue writes a frame with the text of a large value at split. The text is
// made in pieces, so that a client that does not read it makes the broker hold
// one.
func (q *replies) writeValue(frame []byte, split int, value []byte) error {
	if err := q.writeAll(frame[:split]); err != nil {
		return err
	}
	const piece = maxGather / 4 * 3
	text := make([]byte, 0, maxGather)
	for len(value) > 0 {
		n := min(piece, len(value))
		text = base64.StdEncoding.AppendEncode(text[:0], value[:n])
		if err := q.writeAll(text); err != nil {
			return err
		}
		value = value[n:]
	}
	return q.writeAll(frame[split:])
}

// limit gives the client the stall time to take the piece being written.
func (q *replies) limit() {
	// A stream that takes no deadline has ended, which the write will tell.
	_ = q.w.SetWriteDeadline(time.Now().Add(q.stall))
}

// encode appends the frame of r.
func (q *replies) encode(dst []byte, r *reply) []byte {
	switch r.kind {
	case replyAck:
		return wire.AppendPublishAck(dst, r.id, r.text)
	case replyPublish:
		if r.text != "" {
			return q.encodeMessage(dst, &wire.PublishError{RequestID: r.id, Message: r.text})
		}
		return q.encodeMessage(dst, &wire.PublishOK{RequestID: r.id})
	default:
		return q.encodeMessage(dst, r.msg)
	}
}

// encodeMessage appends m, or an error in its place if the client could not
// take it.
func (q *replies) encodeMessage(dst []byte, m wire.Message) []byte {
	out, err := wire.AppendMessageFrame(dst, m)
	if err == nil {
		if n := len(out) - len(dst) - wire.HeaderLen; n > q.maxFrame {
			err = &replyTooLargeError{typ: m.Type(), size: n, limit: q.maxFrame}
		}
	}
	if err == nil {
		return out
	}
	return q.encodeError(dst, err)
}

// encodeError appends an error in place of a reply that cannot be sent.
func (q *replies) encodeError(dst []byte, err error) []byte {
	out, err := wire.AppendMessageFrame(dst, &wire.Error{Message: err.Error()})
	if err != nil {
		// Only a text that is not UTF-8 gets here.
		out, _ = wire.AppendMessageFrame(dst, &wire.Error{Message: "reply cannot be encoded"})
	}
	return out
}

// watchHead makes sure that the oldest reply, if it is pending, is settled after
// the commit wait at the latest. The timer is left running when the head
// changes, and then finds a younger one. q.mu is held.
func (q *replies) watchHead() {
	if q.armed || q.head == q.tail || !q.at(q.head).pending {
		return
	}
	q.armed = true
	left := time.Until(q.at(q.head).owed.Add(q.commitWait))
	if q.timer == nil {
		q.timer = time.AfterFunc(left, q.expire)
	} else {
		q.timer.Reset(left)
	}
}

// expire settles the pending replies that have waited long enough.
func (q *replies) expire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.armed = false
	for t := q.head; t != q.tail; t++ {
		r := q.at(t)
		if !r.pending {
			continue
		}
		if time.Since(r.owed) < q.commitWait {
			break
		}
		q.count.add(CommitTimeouts, 1)
		q.settle(t, broker.ErrCommitTimeout)
	}
	q.watchHead()
}

// queued returns how many replies are owed or not yet written.
func (q *replies) queued() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return int(q.tail - q.head)
}
