package broker

// Ledger is a consistent account of everything a stream was given: for each
// stage, what came in equals what went out, what was dropped, by reason, and
// what is queued.
type Ledger struct {
	Key    Key
	Handle uint64
	Counts Counts
	// IngressQueued waits for the worker, FanoutQueued in subscription queues.
	IngressQueued, FanoutQueued Tally
}

// Stage is one line of a Ledger. Dropped has one entry per reason.
type Stage struct {
	Name    string
	In, Out Counter
	Dropped []Counter
	Queued  Tally
}

var ledgerStages = [...]Stage{
	{Name: "admission", In: Submitted, Out: Accepted, Dropped: []Counter{
		RefusedConnBytes, RefusedProcessBytes, RefusedQueueFull, RefusedAdmissionTimeout, RefusedEnqueueTimeout,
		RefusedCancelled, RefusedClosed, RefusedStreamGone, RefusedInvalid,
	}},
	{Name: "ingress", In: Accepted, Out: Published, Dropped: []Counter{AbandonedClosed, AbandonedStreamGone}},
	{Name: "fanout", In: Offered, Out: Delivered, Dropped: []Counter{DroppedNew, DroppedOld, DroppedClosed}},
}

// Stages returns the lines of the ledger in the order of the path. Dropped
// slices are shared and must not be changed.
func (l *Ledger) Stages() []Stage {
	st := ledgerStages
	st[1].Queued = l.IngressQueued
	st[2].Queued = l.FanoutQueued
	return st[:]
}

// Imbalance returns, for one of the ledger's stages, what came in less what is
// accounted for. It is zero in all three units unless the broker has a defect.
func (l *Ledger) Imbalance(st Stage) (batches, events, bytes int64) {
	sum := l.Counts[st.Out].Plus(st.Queued)
	for _, c := range st.Dropped {
		sum = sum.Plus(l.Counts[c])
	}
	in := l.Counts[st.In]
	return int64(in.Batches - sum.Batches), int64(in.Events - sum.Events), int64(in.Bytes - sum.Bytes)
}

// Ledger returns the stream's account at one moment. The stream's worker and its
// readers wait for as long as that takes, well under a microsecond for each
// subscription.
func (s *Stream) Ledger() Ledger {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := Ledger{Key: s.key, Handle: s.handle, Counts: s.counts, IngressQueued: s.taken}
	for _, list := range [...][]*Subscription{s.subs, s.draining} {
		for _, q := range list {
			q.mu.Lock()
			q.counts.addTo(&l.Counts)
			l.FanoutQueued = l.FanoutQueued.Plus(q.queued)
			q.mu.Unlock()
		}
	}
	s.lane.mu.Lock()
	defer s.lane.mu.Unlock()
	l.Counts.merge(&s.lane.counts)
	l.IngressQueued = l.IngressQueued.Plus(s.lane.queued)
	return l
}

// Ledgers returns the accounts of all registered streams, each at a moment of its
// own, in no particular order.
func (b *Broker) Ledgers() []Ledger {
	b.mu.RLock()
	defer b.mu.RUnlock()
	out := make([]Ledger, 0, len(b.streams))
	for _, s := range b.streams {
		out = append(out, s.Ledger())
	}
	return out
}

// Stats is a snapshot of the whole broker. Each stream's part is consistent in
// itself, so the sums balance like a single Ledger.
type Stats struct {
	// Total covers every stream there is and was; its Key is empty.
	Total  Ledger
	Events [numEvents]uint64

	Streams       int
	Caches        int
	Subscriptions int
	// InflightBytes are the frame bytes charged to the process's budget.
	InflightBytes int64
	CacheEntries  int
	CacheBytes    int64
	Wakeups       []WakeupStats
}

// Stats returns a snapshot of all counters. Traffic goes on meanwhile.
func (b *Broker) Stats() Stats {
	st := Stats{
		Subscriptions: int(b.subscriptions.Load()),
		InflightBytes: b.inflight.used.Load(),
		Wakeups:       b.Wakeups(),
	}
	for i := range b.events {
		st.Events[i] = b.events[i].Load()
	}
	st.CacheEntries, st.CacheBytes = b.cache.size()
	b.mu.RLock()
	defer b.mu.RUnlock()
	st.Streams, st.Caches = len(b.streams), b.caches
	st.Total.Counts = b.retired
	for _, list := range [...]map[uint64]*Stream{b.streams, b.leaving} {
		for _, s := range list {
			l := s.Ledger()
			st.Total.Counts.merge(&l.Counts)
			st.Total.IngressQueued = st.Total.IngressQueued.Plus(l.IngressQueued)
			st.Total.FanoutQueued = st.Total.FanoutQueued.Plus(l.FanoutQueued)
		}
	}
	return st
}
