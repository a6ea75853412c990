package client

import (
	"context"
	"errors"
	"io"

	"felix/wire"
)

// Subscribe starts a subscription to a Felix stream of the client's namespace. Every record published after it has
// returned is part of the subscription. The context bounds the set-up only.
//
// Errors: *NotFoundError, *AuthError, *CursorError, *UnsupportedError, *ServerError, *ConnectionError, *ProtocolError,
// ErrClosed, the error of ctx.
func (c *Client) Subscribe(ctx context.Context, stream string, opts ...SubscribeOption) (*Subscription, error) {
	s := &Subscription{c: c, stream: stream, slot: c.events[int(c.nextEv.Add(1)-1)%len(c.events)]}
	for _, o := range opts {
		o(&s.o)
	}
	s.life, s.cancel = context.WithCancel(c.life)
	if s.o.start == startOffset {
		s.known, s.want = true, s.o.offset
	}
	var es *eventStream
	_, err := c.persist(ctx, func(ctx context.Context) (err error) {
		es, err = s.start(ctx, s.firstStart())
		return err
	})
	if err != nil {
		s.cancel()
		return nil, err
	}
	s.attach(es)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		s.cancel()
		es.close()
		return nil, ErrClosed
	}
	c.subs[s] = struct{}{}
	return s, nil
}

// firstStart is where the caller wants the subscription to start.
func (s *Subscription) firstStart() *wire.Start {
	switch s.o.start {
	case startEarliest:
		return &wire.Start{Kind: wire.StartEarliest}
	case startOffset:
		return &wire.Start{Kind: wire.StartOffset, Offset: s.o.offset}
	}
	return nil
}

// start makes one attempt to subscribe. A nil start is the latest record.
func (s *Subscription) start(ctx context.Context, start *wire.Start) (*eventStream, error) {
	ctl, err := s.slot.open(ctx)
	if err != nil {
		return nil, err
	}
	es, err := s.request(ctx, ctl, start)
	if err != nil {
		ctl.abandon()
		return nil, err
	}
	if !s.c.spawn(func() { es.supervise(ctl) }) {
		ctl.abandon()
		es.close()
		return nil, ErrClosed
	}
	return es, nil
}

// request is the exchange that makes a subscription.
func (s *Subscription) request(ctx context.Context, ctl *control, start *wire.Start) (*eventStream, error) {
	const op = "subscribe"
	if start != nil && !ctl.flags.Has(wire.FlagEventOffsets) {
		return nil, &UnsupportedError{Feature: "starting a subscription at an earlier record"}
	}
	router := ctl.link.router() // before the broker can open the event stream
	release := guard(ctx, ctl.st, s.c.cfg.RequestTimeout)
	m, err := ctl.subscribe(&wire.Subscribe{
		TenantID: s.c.cfg.Tenant, Namespace: s.c.cfg.Namespace, Stream: s.stream, Start: start,
	})
	release()
	if err != nil {
		return nil, streamErr(ctx, op, err)
	}
	switch m := m.(type) {
	case *wire.Subscribed:
		return router.take(ctx, m.SubscriptionID)
	case *wire.SubscribeCursorError:
		return nil, &CursorError{Reason: CursorReason(m.Reason), Requested: m.Requested, Available: m.Available}
	case *wire.Error:
		return nil, refusal(m.Message)
	}
	return nil, unexpected(op, m)
}

// subscribe sends the request, which is the last one of the stream, and reads the answer.
func (c *control) subscribe(m *wire.Subscribe) (wire.Message, error) {
	if err := c.send(m); err != nil {
		return nil, err
	}
	if err := c.st.CloseWrite(); err != nil {
		return nil, err
	}
	return c.receive()
}

// supervise reads the control stream of a subscription to its end. The broker ends it when it has written the records asked
// for, or reports there that the subscription has failed after all.
func (es *eventStream) supervise(ctl *control) {
	m, err := ctl.receive()
	if err != nil {
		if !errors.Is(err, io.EOF) {
			ctl.st.CancelRead(0)
		}
		return // a lost connection is seen on the event stream as well
	}
	ctl.st.CancelRead(0)
	refused := unexpected("subscribe", m)
	if e, ok := m.(*wire.Error); ok {
		refused = refusal(e.Message)
	}
	es.refusal.Store(&refused)
	es.close()
}

// refused returns why the broker has given up the subscription, if it has.
func (es *eventStream) refused() error {
	if err := es.refusal.Load(); err != nil {
		return *err
	}
	return nil
}

// close tells the broker that nobody reads the stream any more.
func (es *eventStream) close() { es.st.CancelRead(0) }

// attach makes es the stream that is read.
func (s *Subscription) attach(es *eventStream) {
	s.id.Store(es.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.es = es
	if s.closed.Load() {
		es.close()
	}
}
