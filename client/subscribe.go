package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

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

// resume makes the subscription again after its connection was lost.
func (s *Subscription) resume(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	var (
		es   *eventStream
		from *wire.Start
	)
	attempts, err := s.c.persist(ctx, func(ctx context.Context) (err error) {
		es, from, err = s.restart(ctx)
		return err
	})
	switch {
	case s.closed.Load():
		if err == nil {
			es.close()
		}
		return ErrClosed
	case err != nil && ctx.Err() != nil:
		return ctx.Err() // the next call tries again
	case err != nil:
		return s.finish(err)
	}
	s.attach(es)
	s.resumed(from, attempts)
	if s.o.failOnGap && s.jump {
		s.jump = false
		return &GapError{}
	}
	return nil
}

// restart makes one attempt to go on after the last record received.
func (s *Subscription) restart(ctx context.Context) (es *eventStream, from *wire.Start, err error) {
	switch {
	case s.known:
		from = &wire.Start{Kind: wire.StartOffset, Offset: s.want}
	case s.o.start == startEarliest && !s.began:
		from = s.firstStart()
	}
	es, err = s.start(ctx, from)
	var cursor *CursorError
	if from == nil || from.Kind != wire.StartOffset || !errors.As(err, &cursor) {
		return es, from, err
	}
	// The record is gone, or the broker has lost those before it: everything it still has is new.
	from = &wire.Start{Kind: wire.StartEarliest}
	if es, err = s.start(ctx, from); err == nil && cursor.Reason == CursorInFuture {
		s.known = false
	}
	return es, from, err
}

// resumed takes note of a subscription that was made again.
func (s *Subscription) resumed(from *wire.Start, attempts int) {
	s.count.resumptions.Add(1)
	s.c.count.resumptions.Add(1)
	r := Resumption{Cause: s.cause, Attempts: attempts}
	switch {
	case from != nil && from.Kind == wire.StartOffset:
		r.FromOffset, r.Offset = true, from.Offset
	case from != nil && !s.began:
	case from != nil && s.known:
		s.unsure = true // the first offset will tell what is missing
	default:
		s.count.unknown.Add(1)
		s.jump = true
	}
	s.c.log(slog.LevelInfo, "subscription resumed", "stream", s.stream, "subscription", s.ID(),
		"attempts", attempts, "from", startText(from), "error", s.cause)
	s.cause = nil
	if s.o.onResume != nil {
		s.o.onResume(r)
	}
}

func startText(start *wire.Start) string {
	switch {
	case start == nil:
		return "latest"
	case start.Kind == wire.StartOffset:
		return fmt.Sprintf("offset %d", start.Offset)
	}
	return "earliest"
}

// load makes a frame the current one.
func (s *Subscription) load(f wire.Frame) error {
	const op = "event stream"
	s.body, s.list, s.left, s.base = nil, nil, 0, false
	if f.Flags != 0 {
		b, err := wire.ParseEventBatch(f.Flags, f.Payload())
		if err != nil {
			return &ProtocolError{Op: op, Detail: "unreadable frame", Err: err}
		}
		if id := s.ID(); !b.Shared && b.SubscriptionID != id {
			return &ProtocolError{Op: op,
				Detail: fmt.Sprintf("events for subscription %d on the stream of subscription %d", b.SubscriptionID, id)}
		}
		s.body = b.Items.Body()
		s.loaded(b.Items.Len(), b.Items.Bytes(), b.HasBase, b.BaseOffset)
		return nil
	}
	m, err := wire.ParseMessage(f.Payload())
	if err != nil {
		return &ProtocolError{Op: op, Detail: "unreadable message", Err: err}
	}
	switch m := m.(type) {
	case *wire.Event:
		s.list = [][]byte{m.Payload}
		s.loadedJSON(m.Offset)
	case *wire.EventBatchJSON:
		s.list = m.Payloads
		s.loadedJSON(m.BaseOffset)
	case *wire.Error:
		return refusal(m.Message)
	default:
		return unexpected(op, m)
	}
	return nil
}

func (s *Subscription) loadedJSON(base *uint64) {
	bytes := 0
	for _, p := range s.list {
		bytes += len(p)
	}
	var from uint64
	if base != nil {
		from = *base
	}
	s.loaded(len(s.list), bytes, base != nil, from)
}

// loaded takes note of the events in a frame and compares their offsets with those expected.
func (s *Subscription) loaded(events, bytes int, hasBase bool, base uint64) {
	s.count.frames.Add(1)
	s.count.events.Add(uint64(events))
	s.count.bytes.Add(uint64(bytes))
	s.c.count.eventFrames.Add(1)
	s.c.count.events.Add(uint64(events))
	s.c.count.eventBytes.Add(uint64(bytes))
	if events == 0 {
		return
	}
	s.left, s.began = events, true
	s.base, s.next = hasBase, base
	if hasBase && s.known && base > s.want {
		s.skip = base - s.want
		s.count.skipped.Add(s.skip)
	}
	if s.unsure && !hasBase {
		s.jump = true
		s.count.unknown.Add(1)
	}
	s.unsure = false
	s.known, s.want = hasBase, base+uint64(events)
}
