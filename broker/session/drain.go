package session

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// DrainError says what a drain had to cut short.
type DrainError struct {
	// Streams are client-opened streams that were still busy, Subscriptions
	// those whose client did not take, or not in time, the events they were owed.
	Streams, Subscriptions int
}

func (e *DrainError) Error() string {
	return fmt.Sprintf("session: drain cut short %d streams and %d subscriptions", e.Streams, e.Subscriptions)
}

// defaultGrace is Config.DrainGrace where Drain is given no limit, minGrace the
// least it is otherwise.
const (
	defaultGrace = 5 * time.Second
	minGrace     = time.Second
)

// minStall is the least time for which a subscription must have taken nothing to
// be given up. It is long enough for a client that does not get to run.
const minStall = 2 * time.Second

// minReserve is what is kept of Drain's time for closing, beside the linger time.
const minReserve = 250 * time.Millisecond

// Drain ends the service in order and closes the broker. It takes no further
// connections and no further streams; lets the client-opened streams go on until
// they are idle, or the grace is over; answers everything that is owed; lets
// the broker publish what it accepted, and the subscriptions write what is
// queued, for as long as their clients take it; then closes every connection with
// code 0 and "broker shutting down". Nearly all of the time that ctx has may go
// into writing.
//
// The error is a *DrainError if not all of that could be done, and ctx's error if
// ctx ended it: then the connections are closed as they are.
// A second call waits for the first one.
func (s *Server) Drain(ctx context.Context) error {
	s.mu.Lock()
	if s.draining {
		done := s.drained
		s.mu.Unlock()
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	s.draining, s.drained = true, make(chan struct{})
	s.mu.Unlock()
	defer close(s.drained)

	d := drain{server: s, conns: s.connections(), grace: s.grace(ctx), began: time.Now()}
	err := d.run(ctx)
	for _, c := range d.conns {
		shutDown(c.conn)
	}
	if err != nil {
		return err
	}
	return d.result()
}

// grace is how long open streams are served on.
func (s *Server) grace(ctx context.Context) time.Duration {
	if s.cfg.DrainGrace > 0 {
		return s.cfg.DrainGrace
	}
	end, ok := ctx.Deadline()
	if !ok {
		return defaultGrace
	}
	return max(minGrace, time.Until(end)/5)
}

// drain is one run of Drain.
type drain struct {
	server        *Server
	conns         []*connection
	grace         time.Duration
	began         time.Time
	streams, subs int // cut short
}

func (d *drain) result() error {
	if d.streams == 0 && d.subs == 0 {
		return nil
	}
	return &DrainError{Streams: d.streams, Subscriptions: d.subs}
}

// run goes through the steps. It returns early, with ctx's error, if ctx ends.
func (d *drain) run(ctx context.Context) error {
	var streams, feeders sync.WaitGroup
	for _, c := range d.conns {
		busy := c.beginDrain()
		streams.Go(c.streams.Wait)
		feeders.Go(func() { c.leave(busy) })
	}
	if !wait(ctx, d.grace, &streams) {
		for _, c := range d.conns {
			d.streams += c.stopStreams()
		}
		// What is left to do is to answer, which takes a client that reads.
		wait(ctx, d.grace/2, &streams)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return d.deliver(ctx, &feeders)
}

// deliver has the broker publish all it accepted, which ends the queues of
// subscriptions, and waits until these are written. Only a subscription whose
// client takes nothing can keep it from either; that one is given up.
func (d *drain) deliver(ctx context.Context, feeders *sync.WaitGroup) error {
	limited, cancel := d.limit(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		_ = d.server.broker.Close(limited) // who keeps it from publishing is told by d.subs
		feeders.Wait()
		close(done)
	}()
	stall := max(d.grace/2, minStall)
	ticker := time.NewTicker(stall / 8)
	defer ticker.Stop()
	for now := time.Now(); ; {
		d.giveUp(now, stall, limited.Err() != nil)
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			d.giveUp(now, 0, true)
			return context.Cause(ctx)
		case now = <-ticker.C:
		}
	}
}

// limit returns a context that ends early enough to close the connections in
// order before ctx ends.
func (d *drain) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	reserve := min(d.server.cfg.EventLinger+minReserve, time.Until(end)/4)
	return context.WithDeadline(ctx, end.Add(-reserve))
}

// giveUp gives up the subscriptions whose client has taken nothing for the time
// of a stall within the drain, or all that are left.
func (d *drain) giveUp(now time.Time, stall time.Duration, all bool) {
	n := 0
	for _, c := range d.conns {
		n += c.giveUp(func(f *feeder) bool {
			return all || min(f.out.blockedFor(now), now.Sub(d.began)) >= stall
		})
	}
	d.subs += n
	d.server.count.add(DrainCutSubscriptions, uint64(n))
}

// wait reports whether wg got to zero within the time.
func wait(ctx context.Context, limit time.Duration, wg *sync.WaitGroup) bool {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// leave closes a draining connection as soon as its streams and subscriptions
// have written everything. A busy one is given time to receive it: the close
// discards what is on its way.
func (c *connection) leave(busy bool) {
	c.streams.Wait()
	c.delivering.Wait()
	if busy {
		timer := time.NewTimer(c.linger())
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.conn.Context().Done():
		}
	}
	shutDown(c.conn)
}
