package broker

import (
	"sync"
	"sync/atomic"
)

// Stream is one topic: an order of events, a replay ring and the subscriptions.
type Stream struct {
	broker *Broker
	key    Key
	handle uint64
	worker *worker
	closed atomic.Bool   // deleted
	done   chan struct{} // closed with closed

	lane    lane
	ready   bool         // in worker.ready; guarded by worker.mu
	stalled atomic.Int32 // subscriptions whose queue is over its bounds (PolicyBlock)

	// Used by the worker alone: jobs[first:] are taken from the lane and not
	// done, the first running of them are published.
	jobs    []job
	first   int
	running int

	mu       sync.Mutex
	ring     ring
	taken    Tally // jobs that are neither published nor abandoned
	failure  error // the remaining jobs are given up with it
	gone     bool  // deleted
	retired  bool  // counts are in Broker.retired
	subs     []*Subscription
	draining []*Subscription // ended, with a queue that is not empty
	counts   Counts          // Published, Abandoned*, RingEvicted, Replayed, and all of folded subscriptions
	small    []byte          // where small frames are copied to
}

func newStream(b *Broker, k Key, handle uint64, o StreamOptions) *Stream {
	s := &Stream{
		broker: b,
		key:    k,
		handle: handle,
		worker: b.workers[handle%uint64(len(b.workers))],
		done:   make(chan struct{}),
		lane:   lane{slots: budget{limit: int64(b.opts.WorkerQueueDepth)}},
		ring:   ring{maxEvents: b.opts.RingEntries, maxBytes: b.opts.RingBytes},
	}
	if o.RingEntries != 0 {
		s.ring.maxEvents = o.RingEntries
	}
	if o.RingBytes > 0 {
		s.ring.maxBytes = o.RingBytes
	}
	return s
}

// Key returns the stream's name.
func (s *Stream) Key() Key { return s.key }

// Handle returns the number that tells this stream from earlier and later ones
// of the same name.
func (s *Stream) Handle() uint64 { return s.handle }

// Active reports whether the stream is still registered. It is cheap enough to
// validate a cached *Stream with.
func (s *Stream) Active() bool { return !s.closed.Load() }

// Info describes the stream.
func (s *Stream) Info() StreamInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return StreamInfo{
		Key:           s.key,
		Handle:        s.handle,
		Worker:        s.worker.id,
		Subscriptions: len(s.subs),
		OldestSeq:     s.ring.oldest(),
		NextSeq:       s.ring.next,
		RingBytes:     s.ring.bytes,
	}
}

// turn publishes one run of what is waiting, and asks for another turn when
// there is more. It returns the number of publications handled. Only the
// stream's worker calls it.
func (s *Stream) turn(w *worker) int {
	s.mu.Lock()
	handled := 0
	if s.running == 0 {
		handled = s.start(w)
		s.running = handled
	}
	// The counter is raised by this goroutine alone, so what is seen here is
	// final, and whoever lowers it to zero pokes the worker.
	if s.stalled.Load() > 0 && s.failure == nil {
		s.mu.Unlock()
		return handled
	}
	run := s.jobs[s.first : s.first+s.running]
	var err error
	if s.failure != nil && handled > 0 {
		err = s.failure
	}
	s.mu.Unlock()

	w.finish(s, run, err)
	s.first += s.running
	s.running = 0
	if s.first < len(s.jobs) || !s.idle(w) {
		w.poke(s)
	}
	return handled
}

// idle takes the stream off the schedule if nothing is waiting.
func (s *Stream) idle(w *worker) bool {
	s.lane.mu.Lock()
	if len(s.lane.jobs) > 0 {
		s.lane.mu.Unlock()
		return false
	}
	if s.lane.scheduled {
		s.lane.scheduled = false
		w.unschedule()
	}
	s.lane.mu.Unlock()
	if !s.Active() {
		s.settle()
	}
	return true
}

// start takes the next run and publishes it, or gives it up if the stream is
// gone. It returns the length of the run. s.mu is held.
func (s *Stream) start(w *worker) int {
	if s.first == len(s.jobs) {
		s.take()
	}
	n, size := 0, 0
	for n < maxRunJobs && s.first+n < len(s.jobs) && (n == 0 || size < maxRunBytes) {
		size += len(s.jobs[s.first+n].batch.Frame)
		n++
	}
	run := s.jobs[s.first : s.first+n]
	if s.failure == nil {
		s.publish(run, size <= smallRun, w)
		return n
	}
	why := AbandonedClosed
	if s.gone {
		why = AbandonedStreamGone
	}
	for i := range run {
		s.settleJob(&run[i].batch, why)
	}
	return n
}

func (s *Stream) settleJob(b *Batch, as Counter) {
	s.taken.remove(b.Count, b.Bytes)
	s.counts.add(as, b.Count, b.Bytes)
}

// take moves everything that waits in the lane to s.jobs. s.mu is held.
func (s *Stream) take() {
	spare := s.jobs[:0]
	if cap(spare) > keepDeque {
		spare = nil
	}
	l := &s.lane
	l.mu.Lock()
	s.jobs, l.jobs = l.jobs, spare
	s.taken = s.taken.Plus(l.queued)
	l.queued = Tally{}
	l.mu.Unlock()
	s.first = 0
}

// publish numbers the events of a run, keeps them and offers them to every
// subscription. s.mu is held.
func (s *Stream) publish(run []job, small bool, w *worker) {
	out := w.scratch[:0]
	for i := range run {
		j := &run[i]
		s.settleJob(&j.batch, Published)
		if j.parts == nil {
			if small {
				j.batch.Frame = s.detach(j.batch.Frame)
			}
			out = s.number(out, j.batch)
			continue
		}
		for _, part := range j.parts {
			out = s.number(out, part)
		}
	}
	w.scratch = out
	if len(out) > 0 {
		r := newDeliveryRun(out)
		for _, sub := range s.subs {
			sub.offer(&r)
		}
	}
	clear(out)
	if cap(out) > keepDeque {
		w.scratch = nil
	}
}

func (s *Stream) number(out []Delivery, b Batch) []Delivery {
	if b.Count == 0 {
		return out
	}
	d := Delivery{Frame: b.Frame, Count: b.Count, Bytes: b.Bytes}
	return append(out, s.ring.append(d, &s.counts[RingEvicted]))
}

// A frame is a part of the buffer its publisher's stream was read into. A small
// frame in the ring of a quiet stream would keep the whole buffer, and everything
// that other streams got through it, from being freed, so that the bounds on ring
// and queue bytes would mean little. The frames of a run of at most smallRun bytes
// are therefore copied together, into chunks that grow from firstChunk to maxChunk
// as they fill up. In longer runs the frames are neighbours in their buffer and
// keep little else alive; copying them would cost a busy stream of small messages
// more than everything else done here.
const (
	smallRun   = 1 << 10
	firstChunk = 4 << 10
	maxChunk   = 64 << 10
)

func (s *Stream) detach(frame []byte) []byte {
	n := len(frame)
	if len(s.subs) == 0 && s.ring.maxEvents <= 0 {
		return frame // nobody keeps it
	}
	if cap(s.small)-len(s.small) < n {
		s.small = make([]byte, 0, min(max(firstChunk, 2*cap(s.small)), maxChunk))
	}
	at := len(s.small)
	s.small = append(s.small, frame...)
	return s.small[at : at+n : at+n]
}

// remove ends a stream that was taken out of the registry.
func (s *Stream) remove() {
	s.lane.mu.Lock()
	s.lane.closed = true
	s.lane.mu.Unlock()
	s.mu.Lock()
	s.gone = true
	s.failure = &StreamGoneError{Handle: s.handle}
	s.ring.clear()
	s.closed.Store(true)
	close(s.done)
	s.mu.Unlock()
	s.finishSubscriptions()
	s.worker.poke(s)
	s.settle()
}

// abandon makes the worker give up the jobs that are not published yet.
func (s *Stream) abandon(err error) {
	s.mu.Lock()
	if s.failure == nil {
		s.failure = err
	}
	s.mu.Unlock()
	s.worker.poke(s)
}

// settle moves the counts of a deleted stream to the broker's once nothing of
// it is waiting anywhere.
func (s *Stream) settle() {
	s.mu.Lock()
	done := s.gone && s.settled()
	s.mu.Unlock()
	if !done {
		return
	}
	b := s.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lane.mu.Lock()
	defer s.lane.mu.Unlock()
	if s.retired || len(s.lane.jobs) > 0 {
		return
	}
	s.retired = true
	delete(b.leaving, s.handle)
	b.retired.merge(&s.counts)
	b.retired.merge(&s.lane.counts)
}

// settled reports whether no job and no frame is left. s.mu is held.
func (s *Stream) settled() bool {
	return !s.retired && s.taken == (Tally{}) && len(s.subs) == 0 && len(s.draining) == 0
}
