package session

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"felix/broker"
)

// connection is one connection being served.
type connection struct {
	server  *Server
	id      uint64
	conn    Conn
	account *broker.Account
	since   time.Time
	frames  atomic.Uint64

	accepting     context.Context // ends when no further stream is taken
	stopAccepting context.CancelFunc
	handshakes    chan struct{} // holds one entry for each stream that authenticates
	frameMemory   *share
	replyMemory   *share

	// Until the first stream has authenticated, the connection has limited time
	// for that, and unproven holds one entry for each stream that is served.
	unproven    chan struct{}
	proven      chan struct{} // closed by the first one
	prove       sync.Once
	authTimeout *time.Timer

	// What runs for the connection. Whatever adds to a later one is itself in
	// an earlier one, so they can be waited for in this order.
	streams sync.WaitGroup // the accept loops and the client-opened streams
	writers sync.WaitGroup // writers of replies whose outcome came late
	feeders sync.WaitGroup // subscriptions

	delivering sync.WaitGroup // subscriptions that a drain has not given up

	mu              sync.Mutex
	tenant, subject string
	inputs          map[*input]*replies // client-opened streams; nil for uni streams
	subs            map[*feeder]struct{}
	draining        bool
	delivered       bool // events were written during a drain
}

func newConnection(s *Server, c Conn, id uint64) *connection {
	conn := &connection{
		server: s, id: id, conn: c, account: s.broker.NewAccount(), since: time.Now(),
		inputs: make(map[*input]*replies), subs: make(map[*feeder]struct{}),
		handshakes:  make(chan struct{}, s.cfg.MaxHandshakes),
		frameMemory: s.frames.share(s.cfg.ConnFrameBytes), replyMemory: s.replies.share(s.cfg.ConnReplyBytes),
		unproven: make(chan struct{}, s.cfg.MaxStreamsBeforeAuth), proven: make(chan struct{}),
	}
	conn.accepting, conn.stopAccepting = context.WithCancel(c.Context())
	// Two accept loops, counted from here on so that a drain can wait at once.
	conn.streams.Add(2)
	conn.authTimeout = time.AfterFunc(s.cfg.ConnAuthTimeout, conn.unauthenticated)
	return conn
}

// unauthenticated closes a connection of which no stream has authenticated.
func (c *connection) unauthenticated() {
	select {
	case <-c.proven:
		return
	default:
	}
	c.server.count.add(ConnectionAuthTimeouts, 1)
	// Closing one that has ended is no failure.
	_ = c.conn.CloseWithError(uint64(CodeAuthTimeout), textAuthTimeout)
}

// mayServe waits until one more stream may be served, which is at once when one
// has authenticated, or until there is no use in waiting.
func (c *connection) mayServe() {
	select {
	case <-c.proven:
		return
	default:
	}
	select {
	case c.unproven <- struct{}{}:
	case <-c.proven:
	case <-c.accepting.Done():
	}
}

// serve runs until the connection has ended and returns why it did.
func (c *connection) serve() error {
	go c.acceptStreams()
	go c.acceptUniStreams()
	ctx := c.conn.Context()
	<-ctx.Done()
	c.authTimeout.Stop()
	c.stopAccepting()
	c.account.Close()
	c.streams.Wait()
	c.writers.Wait()
	c.feeders.Wait()
	return fmt.Errorf("connection ended: %w", context.Cause(ctx))
}

// acceptStreams serves the bidirectional streams that the client opens.
func (c *connection) acceptStreams() {
	defer c.streams.Done()
	for {
		s, err := c.conn.AcceptStream(c.accepting)
		if err != nil {
			c.acceptFailed()
			return
		}
		c.server.count.add(ControlStreams, 1)
		cs := newControlStream(c, s)
		c.mayServe()
		c.streams.Go(cs.run)
	}
}

// acceptUniStreams serves the unidirectional streams that the client opens.
func (c *connection) acceptUniStreams() {
	defer c.streams.Done()
	for {
		s, err := c.conn.AcceptUniStream(c.accepting)
		if err != nil {
			c.acceptFailed()
			return
		}
		c.server.count.add(UniStreams, 1)
		u := newUniStream(c, s)
		c.mayServe()
		c.streams.Go(u.run)
	}
}

// acceptFailed ends a connection that gives out no more streams, unless it is
// us who want none.
func (c *connection) acceptFailed() {
	if c.accepting.Err() == nil {
		shutDown(c.conn)
	}
}

// opened registers a client-opened stream; out is nil for a uni stream.
func (c *connection) opened(in *input, out *replies) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inputs[in] = out
	if c.draining {
		in.drain()
	}
}

func (c *connection) closed(in *input) {
	in.handshakeDone()
	in.release()
	select {
	case <-c.unproven: // one less; who held it does not matter
	default:
	}
	if in.woken > 0 {
		in.account()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.inputs, in)
}

// identified remembers whose token was seen last, and lifts the limits of a
// connection that has none.
func (c *connection) identified(tenant, subject string) {
	c.prove.Do(func() {
		close(c.proven)
		c.authTimeout.Stop()
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tenant, c.subject = tenant, subject
}

func (c *connection) addFeeder(f *feeder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subs[f] = struct{}{}
	c.delivering.Add(1)
}

func (c *connection) removeFeeder(f *feeder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.subs, f)
	if c.draining && f.out.bytes.Load() > f.before {
		c.delivered = true
	}
	if !f.givenUp {
		c.delivering.Done()
	}
}

// beginDrain takes no more streams, and lets those that are open end. It reports
// whether there is anything to end.
func (c *connection) beginDrain() (busy bool) {
	c.stopAccepting()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
	for in := range c.inputs {
		in.drain()
	}
	for f := range c.subs {
		f.before = f.out.bytes.Load()
	}
	return len(c.inputs)+len(c.subs) > 0
}

// stopStreams ends client-opened streams after the frame they are at, and
// publishes that wait for room. It returns how many streams it cut short.
func (c *connection) stopStreams() int {
	c.account.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for in := range c.inputs {
		in.stop()
	}
	c.server.count.add(DrainCutStreams, uint64(len(c.inputs)))
	return len(c.inputs)
}

// linger is how long to wait for the client before the connection is closed.
func (c *connection) linger() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.delivered {
		return c.server.cfg.EventLinger
	}
	return c.server.cfg.CloseLinger
}

func (c *connection) isDraining() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining
}

// giveUp stops waiting for the subscriptions of which stuck says so, and returns
// how many these are. What is queued for them is dropped; their streams end with
// the connection.
func (c *connection) giveUp(stuck func(*feeder) bool) int {
	var up []*feeder
	c.mu.Lock()
	for f := range c.subs {
		if !f.givenUp && stuck(f) {
			f.givenUp = true
			up = append(up, f)
		}
	}
	c.mu.Unlock()
	for _, f := range up {
		f.sub.Discard()
		c.delivering.Done()
	}
	return len(up)
}

func (c *connection) stats(now time.Time) ConnectionStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := ConnectionStats{
		ID: c.id, Transport: c.conn.ID(), RemoteAddr: c.conn.RemoteAddr().String(), Since: c.since,
		Tenant: c.tenant, Subject: c.subject, FramesRead: c.frames.Load(),
	}
	for _, out := range c.inputs {
		if out == nil {
			st.UniStreams++
			continue
		}
		st.ControlStreams++
		st.QueuedReplies += out.queued()
	}
	for f := range c.subs {
		st.Subscriptions = append(st.Subscriptions, f.stats(now))
	}
	return st
}
