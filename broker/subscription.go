package broker

import (
	"context"
	"io"
	"sync"
)

// defaultDrain is how many frames Next returns at most when dst has no capacity.
const defaultDrain = 64

// Subscription is one subscriber's bounded queue. Replay and Next are for one
// goroutine at a time, its reader; everything else may be called by anyone.
//
// Every subscription must be brought to its end: either its reader has got
// io.EOF from Next, or Discard was called.
type Subscription struct {
	stream     *Stream
	id         uint64
	policy     Policy
	account    *Account
	maxBatches int
	maxBytes   int64
	wake       chan struct{} // capacity 1

	index int // in stream.subs; guarded by stream.mu
	state subState

	mu     sync.Mutex
	replay []Delivery
	queue  deque[Delivery]
	bytes  int64 // frame bytes in queue
	queued Tally // of queue
	counts subCounts
	parked bool // the reader waits for wake
	over   bool // counted in stream.stalled
	ended  bool // nothing more is offered
}

// subState says in which of its stream's lists a subscription is; stream.mu
// guards it.
type subState uint8

const (
	subLive subState = iota
	subDraining
	subFolded
)

type subCounts struct {
	offered, delivered, droppedNew, droppedOld, droppedClosed, blocked Tally
}

func newSubscription(s *Stream, o SubscribeOptions) *Subscription {
	opts := &s.broker.opts
	q := &Subscription{
		stream:     s,
		id:         o.ID,
		policy:     opts.SubPolicy,
		account:    o.Account,
		maxBatches: opts.SubQueueBatches,
		maxBytes:   opts.SubQueueBytes,
		wake:       make(chan struct{}, 1),
	}
	if o.Policy != nil {
		q.policy = *o.Policy
	}
	if !o.HasID {
		q.id = s.broker.nextSubID.Add(1)
	}
	return q
}

// ID returns the number by which the subscriber knows the subscription.
func (q *Subscription) ID() uint64 { return q.id }

// Stream returns the stream subscribed to.
func (q *Subscription) Stream() *Stream { return q.stream }

// Policy returns what happens when the queue is full.
func (q *Subscription) Policy() Policy { return q.policy }

// Replay hands over the frames that were in the replay ring from the start
// position on; the events before it are marked in the first frame's Skip. The
// subscription forgets them, so a second call returns nil.
func (q *Subscription) Replay() []Delivery {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.replay
	q.replay = nil
	return r
}

// deliveryRun is what one turn of the worker offers to every subscription.
type deliveryRun struct {
	frames     []Delivery
	total      Tally
	frameBytes int64
}

func newDeliveryRun(frames []Delivery) deliveryRun {
	r := deliveryRun{frames: frames}
	for i := range frames {
		d := &frames[i]
		r.total.add(d.Count, d.Bytes)
		r.frameBytes += int64(len(d.Frame))
	}
	return r
}

// offer puts a run into the queue as its policy allows. stream.mu is held.
func (q *Subscription) offer(r *deliveryRun) {
	q.mu.Lock()
	q.counts.offered = q.counts.offered.Plus(r.total)
	switch {
	case q.fits(len(r.frames), r.frameBytes):
		q.pushRun(r)
	case q.policy == PolicyBlock:
		q.pushRun(r)
		q.block(r)
	case q.policy == PolicyDropOld:
		for i := range r.frames {
			q.pushDroppingOld(&r.frames[i])
		}
	default:
		for i := range r.frames {
			q.pushDroppingNew(&r.frames[i])
		}
	}
	wake := q.parked
	q.parked = false
	q.mu.Unlock()
	if wake {
		q.signal()
	}
}

func (q *Subscription) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// The functions from here to Next are called with q.mu held.

// fits: that many frames and bytes go in beside what is queued.
func (q *Subscription) fits(frames int, bytes int64) bool {
	return q.queue.len()+frames <= q.maxBatches && q.bytes+bytes <= q.maxBytes
}

// within: the queue keeps its bounds; a single frame always does.
func (q *Subscription) within() bool { return q.fits(0, 0) || q.queue.len() <= 1 }

func (q *Subscription) pushRun(r *deliveryRun) {
	for i := range r.frames {
		q.queue.push(r.frames[i])
	}
	q.bytes += r.frameBytes
	q.queued = q.queued.Plus(r.total)
}

func (q *Subscription) push(d *Delivery) {
	q.queue.push(*d)
	q.bytes += int64(len(d.Frame))
	q.queued.add(d.Count, d.Bytes)
}

func (q *Subscription) pop() Delivery {
	d := q.queue.pop()
	q.bytes -= int64(len(d.Frame))
	q.queued.remove(d.Count, d.Bytes)
	return d
}

func (q *Subscription) pushDroppingNew(d *Delivery) {
	if q.queue.len() > 0 && !q.fits(1, int64(len(d.Frame))) {
		q.counts.droppedNew.add(d.Count, d.Bytes)
		return
	}
	q.push(d)
}

func (q *Subscription) pushDroppingOld(d *Delivery) {
	for q.queue.len() > 0 && !q.fits(1, int64(len(d.Frame))) {
		old := q.pop()
		q.counts.droppedOld.add(old.Count, old.Bytes)
	}
	q.push(d)
}

// block stalls the stream while the queue is over its bounds.
func (q *Subscription) block(r *deliveryRun) {
	if !q.over && !q.within() {
		q.over = true
		q.stream.stalled.Add(1)
		q.counts.blocked = q.counts.blocked.Plus(r.total)
	}
}

// unblock reports whether the stream can go on and its worker must be told.
func (q *Subscription) unblock() bool {
	if !q.over || !q.within() && !q.ended {
		return false
	}
	q.over = false
	return q.stream.stalled.Add(-1) == 0
}

// Next waits until something is queued and then takes as much as fits, at least
// one frame: up to cap(dst) frames (64 if that is zero), and up to maxBytes frame
// bytes (no limit below 1). They are returned in dst's memory from its start.
// The error is the context's, or io.EOF when the subscription has ended and its
// queue is empty.
func (q *Subscription) Next(ctx context.Context, dst []Delivery, maxBytes int) ([]Delivery, error) {
	if cap(dst) == 0 {
		dst = make([]Delivery, 0, defaultDrain)
	}
	for {
		q.mu.Lock()
		if q.queue.len() > 0 {
			return q.drain(dst[:0], maxBytes), nil
		}
		if q.ended {
			q.mu.Unlock()
			return dst[:0], io.EOF
		}
		q.parked = true
		q.mu.Unlock()
		select {
		case <-q.wake:
		case <-ctx.Done():
			return dst[:0], context.Cause(ctx)
		}
	}
}

// drain takes frames out of the queue. q.mu is held, and released.
func (q *Subscription) drain(dst []Delivery, maxBytes int) []Delivery {
	size := 0
	for q.queue.len() > 0 && len(dst) < cap(dst) {
		size += len(q.queue.at(0).Frame)
		if maxBytes > 0 && size > maxBytes && len(dst) > 0 {
			break
		}
		d := q.pop()
		q.counts.delivered.add(d.Count, d.Bytes)
		dst = append(dst, d)
	}
	resume := q.unblock()
	last := q.ended && q.queue.len() == 0
	q.mu.Unlock()
	if resume {
		q.stream.worker.poke(q.stream)
	}
	if last {
		q.stream.fold(q)
	}
	q.stream.broker.feedWakeups.Record(len(dst))
	return dst
}

// Close ends the subscription gracefully: nothing more is queued, and Next
// returns io.EOF after what is. It does not wait for that.
func (q *Subscription) Close() { q.end(false) }

// Discard ends the subscription at once: what is queued is counted as dropped,
// and Next returns io.EOF.
func (q *Subscription) Discard() { q.end(true) }

func (q *Subscription) end(discard bool) {
	s := q.stream
	s.mu.Lock()
	s.detachSubscription(q)
	q.mu.Lock()
	q.ended = true
	if discard {
		q.counts.droppedClosed = q.counts.droppedClosed.Plus(q.queued)
		q.queue.clear()
		q.bytes, q.queued, q.replay = 0, Tally{}, nil
	}
	resume := q.unblock()
	empty := q.queue.len() == 0
	q.mu.Unlock()
	s.mu.Unlock()
	q.signal()
	if resume {
		s.worker.poke(s)
	}
	if empty {
		s.fold(q)
	}
}

// Stats returns a consistent view of the subscription.
func (q *Subscription) Stats() SubscriptionStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return SubscriptionStats{
		ID:            q.id,
		Stream:        q.stream.key,
		Policy:        q.policy,
		Offered:       q.counts.offered,
		Delivered:     q.counts.delivered,
		DroppedNew:    q.counts.droppedNew,
		DroppedOld:    q.counts.droppedOld,
		DroppedClosed: q.counts.droppedClosed,
		Queued:        q.queued,
		QueuedBytes:   q.bytes,
		Closed:        q.ended,
	}
}
