package client

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Event is one record of a stream.
type Event struct {
	// Payload is the record. It is never overwritten and may be kept; it must not be written to, and keeping it keeps
	// the frame in memory that it arrived in.
	Payload []byte
	// Offset is the record's position in the stream, if HasOffset. Streams that live in the broker's memory only may
	// have no offsets.
	Offset uint64
	// Skipped is how many records are known to be missing right before this one: offsets Offset-Skipped to Offset-1.
	Skipped   uint64
	HasOffset bool
	// Resumed is true for the first event after a resume where the number of missed records, if any, is unknown.
	Resumed bool
}

// Subscription is the reading end of one subscription. One goroutine at a time may read it; Close and Stats may be called by
// any.
//
// Nothing runs in the background: the connection is read, and after a failure made again, by the reading calls.
type Subscription struct {
	c      *Client
	slot   *slot
	stream string
	o      subscribeOptions

	closed atomic.Bool
	life   context.Context // ends with Close
	cancel context.CancelFunc
	id     atomic.Uint64
	count  subscriptionCounters

	mu sync.Mutex
	es *eventStream // nil while there is no connection; written by the reader only

	// What follows is the reader's.
	watch *watch // of the context of the last call
	end   error  // what every further call returns
	cause error  // what broke the connection; set while es is nil

	cur   eventFrame // the last frame with events
	items []byte     // what is left of its items
	list  [][]byte   // the same of a JSON message
	left  int        // events left
	skip  uint64     // Skipped of the next event
	jump  bool       // Resumed of the next event
	next  uint64     // offset of the next event of the frame
	known bool       // want is meaningful
	want  uint64     // offset that the next frame should start with

	unsure bool // resumed where only an offset can tell whether something is missing
}

type subscriptionCounters struct {
	frames, events, bytes, skipped, resumptions, unknown atomic.Uint64
}

// SubscriptionStats are counters since Subscribe.
type SubscriptionStats struct {
	Frames      uint64 // event frames received
	Events      uint64 // events received
	Bytes       uint64 // payload bytes received
	Skipped     uint64 // records known to be missing
	Resumptions uint64 // times the subscription was made again
	Unknown     uint64 // resumptions after which an unknown number of records may be missing
}

// Stats returns the counters of the subscription.
func (s *Subscription) Stats() SubscriptionStats {
	return SubscriptionStats{
		Frames: s.count.frames.Load(), Events: s.count.events.Load(), Bytes: s.count.bytes.Load(),
		Skipped: s.count.skipped.Load(), Resumptions: s.count.resumptions.Load(), Unknown: s.count.unknown.Load(),
	}
}

// ID returns the broker's number of the subscription. It changes when the subscription is resumed.
func (s *Subscription) ID() uint64 { return s.id.Load() }

// Stream returns the name of the Felix stream.
func (s *Subscription) Stream() string { return s.stream }

// Next returns the next event and waits for it if necessary. After a context error or a *GapError the subscription can be
// read on. Any other error is final: io.EOF if the broker has ended the subscription, ErrClosed after Close,
// *ConnectionError if the connection was lost and could not be made again, *AuthError or *NotFoundError if the broker
// refused to resume, *ProtocolError.
func (s *Subscription) Next(ctx context.Context) (Event, error) {
	if s.left == 0 || s.closed.Load() {
		if err := s.fill(ctx); err != nil {
			return Event{}, err
		}
	}
	return s.pop(), nil
}

// NextBatch waits for an event like Next and appends it, and those that arrived in the same frame, to dst.
func (s *Subscription) NextBatch(ctx context.Context, dst []Event) ([]Event, error) {
	if s.left == 0 || s.closed.Load() {
		if err := s.fill(ctx); err != nil {
			return dst, err
		}
	}
	for s.left > 0 {
		dst = append(dst, s.pop())
	}
	return dst, nil
}

// All ranges over the events. It ends after yielding an error other than a *GapError, or without one when the broker has
// ended the subscription.
func (s *Subscription) All(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			ev, err := s.Next(ctx)
			var gap *GapError
			switch {
			case errors.Is(err, io.EOF):
				return
			case !yield(ev, err):
				return
			case err != nil && !errors.As(err, &gap):
				return
			}
		}
	}
}

// Each calls f for every event until f or the subscription fails, and returns that error. It returns nil when the broker has
// ended the subscription.
func (s *Subscription) Each(ctx context.Context, f func(Event) error) error {
	for {
		ev, err := s.Next(ctx)
		if err == nil {
			err = f(ev)
		} else if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// pop takes an event off the current frame.
func (s *Subscription) pop() (ev Event) {
	if s.list != nil {
		ev.Payload, s.list = slices.Clip(s.list[0]), s.list[1:]
	} else {
		ev.Payload, s.items = cutItem(s.items)
	}
	if s.cur.hasBase {
		ev.Offset, ev.HasOffset = s.next, true
		s.next++
	}
	if s.skip != 0 || s.jump {
		ev.Skipped, ev.Resumed = s.skip, s.jump
		s.skip, s.jump = 0, false
	}
	s.left--
	return ev
}

// fill waits until there is an event.
func (s *Subscription) fill(ctx context.Context) error {
	for {
		if err := s.readable(ctx); err != nil {
			return err
		}
		f, err := s.es.fr.Next()
		if err != nil {
			if err = s.failed(ctx, err); err != nil {
				return err
			}
			continue
		}
		s.es.link.heard.Add(1)
		events, err := parseEvents(f, s.ID())
		if err != nil {
			return s.finish(err)
		}
		if s.load(events); s.left > 0 {
			return s.gap()
		}
	}
}

// readable makes the subscription ready to be read under ctx.
func (s *Subscription) readable(ctx context.Context) error {
	if s.closed.Load() {
		s.left = 0
		s.detach()
		return ErrClosed
	}
	if s.end != nil {
		return s.end
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.es == nil {
		if err := s.resume(ctx); err != nil {
			return err
		}
	}
	s.observe(ctx)
	return nil
}

// load makes a frame the current one and compares its offsets with those expected.
func (s *Subscription) load(f eventFrame) {
	s.count.frames.Add(1)
	s.count.events.Add(uint64(f.events))
	s.count.bytes.Add(uint64(f.bytes))
	s.c.count.eventFrames.Add(1)
	s.c.count.events.Add(uint64(f.events))
	s.c.count.eventBytes.Add(uint64(f.bytes))
	if f.events == 0 {
		return
	}
	s.cur, s.items, s.list, s.left, s.next = f, f.items, f.list, f.events, f.base
	if f.hasBase && s.known && f.base > s.want {
		s.skip = f.base - s.want
		s.count.skipped.Add(s.skip)
	}
	if s.unsure && !f.hasBase {
		s.jump = true
		s.count.unknown.Add(1)
	}
	s.unsure = false
	s.known, s.want = f.hasBase, f.base+uint64(f.events)
}

// began reports whether an event has been received.
func (s *Subscription) began() bool { return s.cur.events > 0 }

// gap returns the gap before the next event as an error, if it is to be reported as one.
func (s *Subscription) gap() error {
	if !s.o.failOnGap || s.skip == 0 && !s.jump {
		return nil
	}
	e := &GapError{Known: !s.jump}
	if e.Known {
		e.From, e.To = s.next-s.skip, s.next
	}
	s.skip, s.jump = 0, false
	return e
}

// failed decides what a read error means. Nil: the connection was lost and is to be made again.
func (s *Subscription) failed(ctx context.Context, err error) error {
	switch {
	case s.closed.Load():
		return ErrClosed
	case s.es.refused() != nil:
		return s.finish(s.es.refused())
	case ctx.Err() != nil:
		return ctx.Err() // the reader of the stream is still good: only a deadline has passed
	case errors.Is(err, io.EOF):
		return s.finish(io.EOF)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return s.finish(&ProtocolError{Op: "event stream", Detail: "it ends inside a frame", Err: err})
	case brokenStream(err):
		return s.finish(&ConnectionError{Op: "event stream", Err: err})
	case s.o.noResume || s.c.life.Err() != nil:
		return s.finish(&ConnectionError{Op: "event stream", Err: err})
	}
	s.cause = err
	s.detach()
	return nil
}

// finish makes err the end of the subscription.
func (s *Subscription) finish(err error) error {
	s.end = err
	s.detach()
	s.forget()
	return err
}

// detach gives the event stream up.
func (s *Subscription) detach() {
	s.observe(context.Background())
	s.mu.Lock()
	es := s.es
	s.es = nil
	s.mu.Unlock()
	if es != nil {
		es.close()
	}
}

// forget takes the subscription out of what Client.Close ends.
func (s *Subscription) forget() {
	s.c.mu.Lock()
	delete(s.c.subs, s)
	s.c.mu.Unlock()
}

// Close ends the subscription and wakes a waiting reader. The broker is told.
func (s *Subscription) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.cancel()
	s.forget()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.es != nil {
		s.es.close()
	}
	return nil
}

// watch interrupts reads when a context ends.
type watch struct {
	done  <-chan struct{}
	st    recvStream
	stop  func() bool
	fired chan struct{}
}

// observe makes reads end with ctx. Successive calls with the same context cost nothing, so that a reader which waits for
// every frame does not register anew each time; the registration stays until another context is used.
func (s *Subscription) observe(ctx context.Context) {
	done := ctx.Done()
	if w := s.watch; w != nil {
		if s.es != nil && w.done == done && w.st == s.es.st {
			return
		}
		s.watch = nil
		if !w.stop() {
			<-w.fired
			_ = w.st.SetReadDeadline(time.Time{})
		}
	}
	if done == nil {
		return
	}
	w := &watch{done: done, st: s.es.st, fired: make(chan struct{})}
	w.stop = context.AfterFunc(ctx, func() {
		_ = w.st.SetReadDeadline(past)
		close(w.fired)
	})
	s.watch = w
}
