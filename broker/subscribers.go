package broker

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
	s.settle()
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
