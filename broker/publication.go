package broker

// Batch is one encoded run of events.
type Batch struct {
	// Frame is the whole event frame, header included, in the shared layout
	// without offsets (wire.FlagEventBatchShared). It is immutable from the
	// moment it is submitted.
	Frame []byte
	// Count is the number of events, Bytes the sum of their payload lengths.
	Count int
	Bytes int
}

// Delivery is one event frame on its way to a subscriber.
type Delivery struct {
	// Frame is shared with other subscribers and must not be written to. It may
	// be kept for as long as one likes.
	Frame []byte
	// Count is the number of events in Frame, Bytes the sum of their payload
	// lengths, both including events that are to be skipped.
	Count int
	Bytes int
	// FirstSeq is the sequence number of the first event in Frame. A difference
	// from the end of the previous delivery is a gap left by a drop policy.
	FirstSeq uint64
	// Skip is how many events at the start of Frame the subscriber must not get.
	// Only the first delivery of a replay can have any.
	Skip int
}

// Completer is told what became of an accepted publication.
type Completer interface {
	// Complete is called exactly once for every publication that Submit accepted
	// with this Completer: with nil when it has been handed to the queues of all
	// subscriptions, else with the reason it was given up. It is called from an
	// ingress worker with no broker lock held, must not block, and must not call
	// Submit with a wait. Calls for publications of one stream come in the order
	// of their sequence numbers.
	Complete(token uint64, err error)
}

// Publication is one publish request.
type Publication struct {
	Stream *Stream
	Batch  Batch
	// Account is charged until the publication is done; nil charges only the
	// process.
	Account *Account
	// Completer is told the outcome; nil when nobody waits for it.
	Completer Completer
	// Token is passed to Completer.
	Token uint64
	// OnWait, if set, is called by Submit before it begins to wait for room, so
	// that a caller can first do what must not wait along. Submit holds nothing
	// meanwhile: OnWait may block.
	OnWait func()
}

// Wait says what Submit does when there is no room.
type Wait uint8

const (
	// WaitNone fails at once.
	WaitNone Wait = iota
	// WaitBounded waits up to Options.QueueWait in all.
	WaitBounded
	// WaitForever waits until there is room, the context ends or the broker
	// closes.
	WaitForever
)

// StreamInfo describes an existing stream.
type StreamInfo struct {
	Key           Key
	Handle        uint64
	Worker        int
	Subscriptions int
	// OldestSeq is the oldest event held for replay, NextSeq the number the next
	// one gets; they are equal when nothing is held.
	OldestSeq uint64
	NextSeq   uint64
	RingBytes int64
}

// CacheInfo describes an existing cache.
type CacheInfo struct {
	Key     Key
	Entries int
	// Bytes are keys, values and the fixed cost of each entry.
	Bytes int64
}

// SubscriptionStats is a consistent view of one subscription.
type SubscriptionStats struct {
	ID     uint64
	Stream Key
	Policy Policy
	// Offered = Delivered + DroppedNew + DroppedOld + DroppedClosed + Queued.
	Offered, Delivered, DroppedNew, DroppedOld, DroppedClosed Tally
	// Queued is in the queue, and QueuedBytes the frame bytes of that, which the
	// queue's bound is about.
	Queued      Tally
	QueuedBytes int64
	// Closed: nothing more is offered.
	Closed bool
}
