package client

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"felix/wire"
)

// eventStream is an event stream whose hello has been read.
type eventStream struct {
	id      uint64
	link    *link
	st      recvStream
	fr      *wire.FrameReader
	expiry  *time.Timer           // while nobody has asked for it
	refusal atomic.Pointer[error] // the broker has given the subscription up
}

// router brings the event streams of a connection together with the subscriptions they belong to: a stream may arrive before
// or after the answer that names its subscription.
type router struct {
	c     *Client
	link  *link
	limit int

	mu      sync.Mutex
	early   map[uint64]*eventStream      // arrived, not asked for yet
	waiting map[uint64]chan *eventStream // asked for, not arrived yet; buffered
	reading int                          // streams whose hello is being read
	err     error                        // the connection has ended
}

func (c *Client) startRouter(l *link) *router {
	r := &router{
		c: c, link: l, limit: c.cfg.MaxPendingEventStreams,
		early: make(map[uint64]*eventStream), waiting: make(map[uint64]chan *eventStream),
	}
	if !c.spawn(r.accept) {
		r.err = ErrClosed
	}
	return r
}

// accept takes the streams of the connection until it ends.
func (r *router) accept() {
	for {
		st, err := r.link.conn.AcceptUniStream(r.link.conn.Context())
		if err != nil {
			r.fail(err)
			return
		}
		if !r.reserve() || !r.c.spawn(func() { r.introduce(st) }) {
			r.refuse(st)
		}
	}
}

func (r *router) refuse(st recvStream) {
	st.CancelRead(0)
	r.c.count.streamsRefused.Add(1)
}

// reserve makes room for one more pending stream.
func (r *router) reserve() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reading+len(r.early) >= r.limit {
		return false
	}
	r.reading++
	return true
}

// introduce reads the hello of a stream and hands the stream over or keeps it.
func (r *router) introduce(st recvStream) {
	es, err := r.hello(st)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading--
	if err != nil || r.err != nil {
		r.refuse(st)
		return
	}
	if ch, ok := r.waiting[es.id]; ok {
		delete(r.waiting, es.id)
		ch <- es
		return
	}
	if _, twice := r.early[es.id]; twice {
		r.refuse(st)
		return
	}
	r.early[es.id] = es
	es.expiry = time.AfterFunc(r.c.cfg.RequestTimeout, func() { r.expire(es) })
}

func (r *router) hello(st recvStream) (*eventStream, error) {
	_ = st.SetReadDeadline(time.Now().Add(r.c.cfg.RequestTimeout))
	fr := wire.NewFrameReader(st, r.c.cfg.MaxFrameBytes)
	f, err := fr.Next()
	if err != nil {
		return nil, err
	}
	m, err := message(f)
	if err != nil {
		return nil, err
	}
	hello, ok := m.(*wire.EventStreamHello)
	if !ok {
		return nil, unexpected("event stream", m)
	}
	_ = st.SetReadDeadline(time.Time{})
	return &eventStream{id: hello.SubscriptionID, link: r.link, st: st, fr: fr}, nil
}

// expire refuses a stream that nobody has asked for in time, such as that of a Subscribe that was called off.
func (r *router) expire(es *eventStream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.early[es.id] == es {
		delete(r.early, es.id)
		r.refuse(es.st)
	}
}

// fail ends the router together with its connection.
func (r *router) fail(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = cause
	for id, es := range r.early {
		es.expiry.Stop()
		delete(r.early, id)
	}
	for id, ch := range r.waiting {
		close(ch)
		delete(r.waiting, id)
	}
}

// take returns the event stream of a subscription, waiting for it if necessary.
func (r *router) take(ctx context.Context, id uint64) (*eventStream, error) {
	es, ch, err := r.claim(id)
	if es != nil || err != nil {
		return es, err
	}
	timer := time.NewTimer(r.c.cfg.RequestTimeout)
	defer timer.Stop()
	select {
	case es, ok := <-ch:
		if !ok {
			return nil, r.lost()
		}
		return es, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = &ConnectionError{Op: "subscribe", Err: errNoAnswer}
	}
	r.forget(id, ch)
	return nil, err
}

func (r *router) claim(id uint64) (*eventStream, chan *eventStream, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return nil, nil, &ConnectionError{Op: "subscribe", Err: r.err}
	}
	if es := r.early[id]; es != nil {
		es.expiry.Stop()
		delete(r.early, id)
		return es, nil, nil
	}
	if _, twice := r.waiting[id]; twice {
		return nil, nil, &ProtocolError{Op: "subscribe", Detail: fmt.Sprintf("subscription id %d given twice", id)}
	}
	ch := make(chan *eventStream, 1)
	r.waiting[id] = ch
	return nil, ch, nil
}

// forget calls a take off; a stream that has just been handed over is refused.
func (r *router) forget(id uint64, ch chan *eventStream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting[id] == ch {
		delete(r.waiting, id)
		return
	}
	if es, ok := <-ch; ok {
		r.refuse(es.st)
	}
}

func (r *router) lost() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &ConnectionError{Op: "subscribe", Err: r.err}
}
