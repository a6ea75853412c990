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
	// those with events that had not been written.
	Streams, Subscriptions int
}

func (e *DrainError) Error() string {
	return fmt.Sprintf("session: drain cut short %d streams and %d subscriptions", e.Streams, e.Subscriptions)
}

// defaultGrace is Config.DrainGrace where Drain is given no limit, minGrace the
// least it is otherwise.
const (
	defaultGrace = 12500 * time.Millisecond
	minGrace     = time.Second
)

// Drain ends the service in order and closes the broker. It takes no further
// connections and no further streams; lets the client-opened streams go on until
// they are idle, or the grace is over; answers everything that is owed; lets
// the broker publish what it accepted, and the subscriptions write what is
// queued; then closes every connection with code 0 and "broker shutting down".
//
// The error is a *DrainError if not all of that could be done within the grace,
// and ctx's error if ctx ended it: then the connections are closed as they are.
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

	d := drain{server: s, conns: s.connections(), grace: s.grace(ctx)}
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
	return max(minGrace, time.Until(end)/2)
}

// drain is one run of Drain.
type drain struct {
	server        *Server
	conns         []*connection
	grace         time.Duration
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
	// The queues of subscriptions end once the broker has published all it
	// accepted. Only a blocking subscriber can keep it from that.
	limited, cancel := context.WithTimeout(ctx, d.grace/2)
	defer cancel()
	_ = d.server.broker.Close(limited) // the limit is told by d.subs
	if !wait(limited, d.grace, &feeders) {
		for _, c := range d.conns {
			d.subs += c.openSubscriptions()
		}
		d.server.count.add(DrainCutSubscriptions, uint64(d.subs))
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
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
	c.feeders.Wait()
	if busy {
		timer := time.NewTimer(c.server.cfg.CloseLinger)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.conn.Context().Done():
		}
	}
	shutDown(c.conn)
}
