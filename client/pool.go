package client

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"felix/transport"
)

// firstDialLimit bounds the first attempt to redial; each further one may take twice as long, up to the handshake timeout.
// A lost first packet is repeated by QUIC after about 300 ms and then ever later, so that short attempts find a broker that
// has just come back sooner; the growth lets distant ones answer.
const firstDialLimit = 500 * time.Millisecond

// link is one connection to the broker.
type link struct {
	conn    conn
	router  func() *router // started by the first subscription
	closing atomic.Bool    // ended by us
	heard   atomic.Uint64  // frames received
}

func (l *link) alive() bool { return l.conn.Context().Err() == nil }

func (l *link) close() {
	l.closing.Store(true)
	_ = l.conn.CloseWithError(0, "") // an error says that it had ended already
}

// dial makes a connection within limit, 0 for the transport's own limit.
func (c *Client) dial(ctx context.Context, limit time.Duration) (*link, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	if limit > 0 {
		var end context.CancelFunc
		ctx, end = context.WithTimeoutCause(ctx, limit, transport.ErrHandshakeTimeout)
		defer end()
	}
	qc, err := c.dialConn(ctx)
	if err != nil {
		c.count.dialFailures.Add(1)
		return nil, err
	}
	l := &link{conn: qc}
	l.router = sync.OnceValue(func() *router { return c.startRouter(l) })
	if !c.adopt(l) {
		l.close()
		return nil, ErrClosed
	}
	c.count.dials.Add(1)
	return l, nil
}

// slot is a place for one connection of a pool.
type slot struct {
	c    *Client
	role string
	busy chan struct{} // holds a value while the slot is being connected

	mu       sync.Mutex
	link     *link
	failures int       // failed attempts in a row
	lastErr  error     // of the last one
	retryAt  time.Time // not to be tried before
}

func newSlots(c *Client, role string, n int) []*slot {
	slots := make([]*slot, n)
	for i := range slots {
		slots[i] = &slot{c: c, role: role, busy: make(chan struct{}, 1)}
	}
	c.slots = append(c.slots, slots...)
	return slots
}

// open makes one attempt to get an authenticated control stream on the slot's connection, which is made if necessary.
func (s *slot) open(ctx context.Context) (*control, error) {
	if ctl := s.takeSpare(); ctl != nil {
		return ctl, nil
	}
	l, fresh, err := s.connected(ctx)
	if err != nil {
		return nil, err
	}
	heard := l.heard.Load()
	ctl, err := s.c.openControl(ctx, l)
	var lost *ConnectionError
	switch {
	case err == nil || fresh || !errors.As(err, &lost) || brokenStream(err):
		return ctl, err
	case errors.Is(err, errNoAnswer):
		if l.heard.Load() == heard {
			s.drop(l) // it takes no new streams and says nothing else either: the next attempt needs another one
		}
		return nil, err
	}
	// The connection has ended without anybody having noticed.
	s.drop(l)
	if l, _, err = s.connected(ctx); err != nil {
		return nil, err
	}
	return s.c.openControl(ctx, l)
}

// takeSpare makes the connection and the stream that Connect has opened those of this slot, if it has none and they
// have not been taken.
func (s *slot) takeSpare() *control {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != nil {
		return nil
	}
	ctl := s.c.spare.Swap(nil)
	if ctl == nil || !ctl.link.alive() {
		return nil
	}
	s.link = ctl.link
	return ctl
}

// connected returns the slot's connection, and whether it was made by this call.
func (s *slot) connected(ctx context.Context) (l *link, fresh bool, err error) {
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	if l, err = s.state(); l != nil || err != nil {
		return l, false, err
	}
	l, err = s.c.dial(ctx, s.dialLimit())
	s.settle(l, err)
	if err != nil && ctx.Err() != nil {
		return nil, false, ctx.Err()
	}
	if errors.Is(err, ErrClosed) {
		return nil, false, err
	}
	if err != nil {
		return nil, false, &ConnectionError{Op: "dial", Err: err}
	}
	return l, true, nil
}

// state returns the connection if it is alive, or an error if an attempt has failed so recently that the next one has to
// wait: callers that were queueing share its result.
func (s *slot) state() (*link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != nil && s.link.alive() {
		return s.link, nil
	}
	s.link = nil
	if time.Now().Before(s.retryAt) {
		return nil, &ConnectionError{Op: "dial", Err: s.lastErr}
	}
	return nil, nil
}

func (s *slot) dialLimit() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := firstDialLimit << min(s.failures, 8)
	handshake := s.c.cfg.Transport.HandshakeTimeout
	if handshake == 0 {
		handshake = transport.DefaultHandshakeTimeout
	}
	if limit >= handshake {
		return 0
	}
	return limit
}

// settle notes the result of an attempt.
func (s *slot) settle(l *link, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.link, s.failures, s.lastErr, s.retryAt = l, 0, nil, time.Time{}
		return
	}
	s.failures++
	s.lastErr = err
	s.retryAt = time.Now().Add(s.c.cfg.Backoff.Min / 2)
}

// drop forgets and ends a connection that is of no use any more.
func (s *slot) drop(l *link) {
	s.mu.Lock()
	if s.link == l {
		s.link = nil
	}
	s.mu.Unlock()
	l.close()
}

// persist calls try until it succeeds, fails for good, or ctx or Config.ReconnectTimeout ends the waiting. It returns the
// number of attempts.
func (c *Client) persist(ctx context.Context, try func(context.Context) error) (attempts int, err error) {
	start := time.Now()
	for attempts = 1; ; attempts++ {
		err = try(ctx)
		switch {
		case err == nil:
			return attempts, nil
		case c.life.Err() != nil:
			return attempts, ErrClosed
		case !passing(err):
			return attempts, err
		}
		pause := c.cfg.Backoff.pause(attempts)
		if limit := c.cfg.ReconnectTimeout; limit >= 0 && time.Since(start)+pause > limit {
			return attempts, &ConnectionError{Op: "reconnect", Err: &reconnectTimeoutError{after: limit, err: err}}
		}
		if err := c.sleep(ctx, pause); err != nil {
			return attempts, err
		}
	}
}

// sleep waits for d, unless ctx or the client ends first.
func (c *Client) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.life.Done():
		return ErrClosed
	}
}
