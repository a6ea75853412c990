package session

import (
	"context"
	"errors"
	"fmt"

	"felix/broker"
	"felix/broker/auth"
	"felix/wire"
)

// subscribe handles a subscribe, the last request on its stream. The
// subscription is registered first, so that nothing published from now on is
// missed; its feeder writes the hello at once, and replay and live events after
// the client has been told that it is subscribed.
func (s *controlStream) subscribe(m *wire.Subscribe) *ending {
	if text := s.permits(auth.ActionStreamSubscribe, m.TenantID, auth.StreamResource(m.TenantID, m.Namespace, m.Stream)); text != "" {
		return fail(CodeForbidden, text)
	}
	sub, err := s.register(m)
	if err != nil {
		return s.subscribeFailed(err)
	}
	out, err := s.openEvents()
	if err != nil {
		sub.Discard()
		return s.subscribeFailed(err)
	}
	s.conn.server.count.add(SubscribesOpened, 1)
	f := newFeeder(s.conn, sub, out, s.flags.Has(wire.FlagEventOffsets))
	s.conn.addFeeder(f)
	s.conn.feeders.Go(f.run)
	return &ending{reply: &wire.Subscribed{SubscriptionID: sub.ID()}, unread: lastRequestUnread, after: f.subscribed}
}

// register opens the subscription at the broker.
func (s *controlStream) register(m *wire.Subscribe) (*broker.Subscription, error) {
	stream, err := s.conn.server.findStream(broker.Key{Tenant: m.TenantID, Namespace: m.Namespace, Name: m.Stream})
	if err != nil {
		return nil, err
	}
	o := broker.SubscribeOptions{Start: m.Start, Account: s.conn.account}
	if m.SubscriptionID != nil {
		o.ID, o.HasID = *m.SubscriptionID, true
	}
	return stream.Subscribe(o)
}

// openEvents opens the event stream. That may have to wait for the client, who
// meanwhile gets the replies to what it sent before.
func (s *controlStream) openEvents() (SendStream, error) {
	if err := s.out.flush(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(s.conn.accepting, s.conn.server.cfg.OpenTimeout)
	defer cancel()
	out, err := s.conn.conn.OpenUniStream(ctx)
	switch {
	case err == nil:
		return out, nil
	case s.conn.accepting.Err() != nil:
		return nil, errors.New(wire.ShutdownReason)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("cannot open event stream: client allowed no further stream within %v", s.conn.server.cfg.OpenTimeout)
	}
	return nil, fmt.Errorf("cannot open event stream: %w", err)
}

// subscribeFailed answers a subscribe that opened nothing.
func (s *controlStream) subscribeFailed(err error) *ending {
	s.conn.server.count.add(SubscribesRefused, 1)
	var cursor *broker.CursorError
	if errors.As(err, &cursor) {
		return &ending{code: CodeRefused, reply: &wire.SubscribeCursorError{
			Reason: cursor.Reason, Requested: cursor.Requested, Available: cursor.Available,
		}}
	}
	return fail(CodeRefused, err.Error())
}
