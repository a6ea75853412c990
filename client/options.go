package client

// AckMode says which answer of the broker a publish waits for.
type AckMode uint8

const (
	// AckDefault is AckPerBatch.
	AckDefault AckMode = iota
	// AckPerMessage asks for an acknowledgement of each message. A batch in one frame still gets one answer.
	AckPerMessage
	// AckPerBatch asks for one acknowledgement of the whole batch.
	AckPerBatch
	// AckNone asks for nothing: the publish is done when it was written to the QUIC stream. The broker drops it without
	// telling anyone if the stream is unknown or its queues are full.
	AckNone
)

// PublishOption changes one publish. Options are values; making one does not allocate.
type PublishOption struct {
	ack    AckMode
	key    []byte
	hasKey bool
	retry  Retry
	set    uint8
}

const (
	setAck = 1 << iota
	setKey
	setRetry
)

// WithAck chooses the acknowledgement. Default AckPerBatch.
func WithAck(m AckMode) PublishOption { return PublishOption{ack: m, set: setAck} }

// WithKey gives the messages a routing key. A broker with one shard ignores it; an empty key is still a key. The key
// may be changed after the publish has returned.
func WithKey(key []byte) PublishOption { return PublishOption{key: key, hasKey: true, set: setKey} }

// WithRetry overrides Config.Retry.
func WithRetry(r Retry) PublishOption { return PublishOption{retry: r, set: setRetry} }

// SubscribeOption changes how a subscription starts and what it does about gaps.
type SubscribeOption func(*subscribeOptions)

type startKind uint8

const (
	startLatest startKind = iota
	startEarliest
	startOffset
)

type subscribeOptions struct {
	start     startKind
	offset    uint64
	failOnGap bool
	noResume  bool
	onResume  func(Resumption)
}

// FromLatest starts with the next record that is published. Default.
func FromLatest() SubscribeOption {
	return func(o *subscribeOptions) { o.start = startLatest }
}

// FromEarliest starts with the oldest record that the broker still holds. It needs a broker that can send offsets.
func FromEarliest() SubscribeOption {
	return func(o *subscribeOptions) { o.start = startEarliest }
}

// FromOffset starts with record n, the first one not seen yet. It needs a broker that can send offsets. If the record is
// not held, Subscribe returns a *CursorError.
func FromOffset(n uint64) SubscribeOption {
	return func(o *subscribeOptions) { o.start, o.offset = startOffset, n }
}

// FailOnGap makes the reading calls return a *GapError where they would otherwise set Skipped or Resumed of the event
// after the gap. The subscription goes on after it.
func FailOnGap() SubscribeOption {
	return func(o *subscribeOptions) { o.failOnGap = true }
}

// WithoutResume ends the subscription with an error when its connection breaks.
func WithoutResume() SubscribeOption {
	return func(o *subscribeOptions) { o.noResume = true }
}

// OnResume has f called each time the subscription was made again after its connection broke, before the first event of
// the new one. It is called by the goroutine that reads the subscription.
func OnResume(f func(Resumption)) SubscribeOption {
	return func(o *subscribeOptions) { o.onResume = f }
}

// Resumption describes a subscription that was made again.
type Resumption struct {
	// Cause is what broke the previous one.
	Cause error
	// Attempts is how many attempts it took.
	Attempts int
	// FromOffset is true if the subscription went on at Offset, the one after the last event delivered. Otherwise it
	// went on at the latest record, or at the earliest one after the broker had lost its records.
	FromOffset bool
	Offset     uint64
}
