package broker

import "felix/wire"

// SubscribeOptions say where and how a subscription begins.
type SubscribeOptions struct {
	// Start is the first event wanted; nil means the next one published.
	Start *wire.Start
	// ID is used as is if HasID is set; otherwise the broker numbers
	// subscriptions from 1.
	ID    uint64
	HasID bool
	// Policy overrides Options.SubPolicy.
	Policy *Policy
	// Account, if set, has its subscriptions counted and bounded.
	Account *Account
}

// Subscribe opens a subscription. It is live when Subscribe returns: the events
// of Replay and those of Next join without gap or overlap. The error is a
// *CursorError, a *StreamGoneError, ErrTooManySubscriptions or ErrClosed.
func (s *Stream) Subscribe(o SubscribeOptions) (*Subscription, error) {
	if o.Account != nil && !o.Account.openSubscription() {
		s.broker.count(SubscribeLimit)
		return nil, ErrTooManySubscriptions
	}
	sub, why, err := s.register(o)
	s.broker.count(why)
	if err != nil {
		if o.Account != nil {
			o.Account.subscriptions.Add(-1)
		}
		return nil, err
	}
	s.broker.subscriptions.Add(1)
	return sub, nil
}

func (a *Account) openSubscription() bool {
	if a.subscriptions.Add(1) <= a.maxSubs {
		return true
	}
	a.subscriptions.Add(-1)
	return false
}

func (s *Stream) register(o SubscribeOptions) (*Subscription, Event, error) {
	sub := newSubscription(s, o)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.gone:
		return nil, SubscribeGone, &StreamGoneError{Handle: s.handle}
	case s.broker.closing.Load():
		return nil, SubscribeGone, ErrClosed
	}
	first, why, err := s.position(o.Start)
	if err != nil {
		return nil, why, err
	}
	sub.replay = s.ring.from(first)
	for _, d := range sub.replay {
		s.counts.add(Replayed, d.Count, d.Bytes)
	}
	sub.index = len(s.subs)
	s.subs = append(s.subs, sub)
	return sub, SubscribeOK, nil
}

// position finds the number of the first event for a start. s.mu is held.
func (s *Stream) position(start *wire.Start) (uint64, Event, error) {
	next := s.ring.next
	if start == nil || start.Kind == wire.StartLatest {
		return next, 0, nil
	}
	oldest := s.ring.oldest()
	switch {
	case start.Kind == wire.StartEarliest:
		return oldest, 0, nil
	case start.Offset < oldest:
		return 0, SubscribeTooOld, &CursorError{wire.CursorTooOld, start.Offset, oldest}
	case start.Offset > next:
		return 0, SubscribeInFuture, &CursorError{wire.CursorInFuture, start.Offset, next}
	}
	return start.Offset, 0, nil
}

// A stream keeps its subscriptions in two lists: those that are offered events,
// and those that have ended but whose reader has not taken everything yet. When
// the latter is done, the subscription's counts are folded into the stream's.

// detachSubscription takes q off the fan-out, once. s.mu is held.
func (s *Stream) detachSubscription(q *Subscription) {
	if q.state != subLive {
		return
	}
	s.subs = swapRemove(s.subs, q)
	q.state = subDraining
	q.index = len(s.draining)
	s.draining = append(s.draining, q)
	s.broker.subscriptions.Add(-1)
	if q.account != nil {
		q.account.subscriptions.Add(-1)
	}
}

// fold ends a detached subscription whose queue is empty, once.
func (s *Stream) fold(q *Subscription) {
	s.mu.Lock()
	if q.state != subDraining {
		s.mu.Unlock()
		return
	}
	q.state = subFolded
	s.draining = swapRemove(s.draining, q)
	q.mu.Lock()
	q.counts.addTo(&s.counts)
	q.mu.Unlock()
	s.mu.Unlock()
	if !s.Active() {
		s.settle()
	}
}

// swapRemove removes q, which is at its index, and fills the hole with the last.
func swapRemove(list []*Subscription, q *Subscription) []*Subscription {
	last := len(list) - 1
	list[q.index] = list[last]
	list[q.index].index = q.index
	list[last] = nil
	return list[:last]
}

func (c *subCounts) addTo(to *Counts) {
	to[Offered] = to[Offered].Plus(c.offered)
	to[Delivered] = to[Delivered].Plus(c.delivered)
	to[DroppedNew] = to[DroppedNew].Plus(c.droppedNew)
	to[DroppedOld] = to[DroppedOld].Plus(c.droppedOld)
	to[DroppedClosed] = to[DroppedClosed].Plus(c.droppedClosed)
	to[Blocked] = to[Blocked].Plus(c.blocked)
}

// finishSubscriptions ends all subscriptions gracefully.
func (s *Stream) finishSubscriptions() {
	s.mu.Lock()
	live := append([]*Subscription(nil), s.subs...)
	s.mu.Unlock()
	for _, q := range live {
		q.Close()
	}
}

// Subscriptions returns the statistics of the stream's subscriptions, ended ones
// that are not drained included.
func (s *Stream) Subscriptions() []SubscriptionStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]SubscriptionStats, 0, len(s.subs)+len(s.draining))
	for _, q := range s.subs {
		out = append(out, q.Stats())
	}
	for _, q := range s.draining {
		out = append(out, q.Stats())
	}
	return out
}
