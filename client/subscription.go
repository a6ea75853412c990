package client

import (
	"context"
	"iter"
)

// Event is one record of a stream.
type Event struct {
	// Payload is the record. It is never overwritten and may be kept; it must not be written to, and keeping it keeps
	// the frame in memory that it arrived in.
	Payload []byte
	// Offset is the record's position in the stream, if HasOffset. Streams that live in the broker's memory only may
	// have no offsets.
	Offset    uint64
	HasOffset bool
	// Resumed is true for the first event after a resume where the number of missed records, if any, is unknown.
	Resumed bool
	// Skipped is how many records are known to be missing right before this one: offsets Offset-Skipped to Offset-1.
	Skipped uint64
}

// Subscription is the reading end of one subscription. One goroutine at a time may read it; Close may be called by any.
//
// Nothing runs in the background: the connection is read, and after a failure made again, by the reading calls.
type Subscription struct{}

// Subscribe starts a subscription to a Felix stream of the client's namespace. Every record published after it has
// returned is part of the subscription.
func (c *Client) Subscribe(ctx context.Context, stream string, opts ...SubscribeOption) (*Subscription, error) {
	return nil, ErrClosed
}

// ID returns the broker's number of the subscription. It changes when the subscription is resumed.
func (s *Subscription) ID() uint64 { return 0 }

// Stream returns the name of the Felix stream.
func (s *Subscription) Stream() string { return "" }

// Next returns the next event and waits for it if necessary. io.EOF says that the broker has ended the subscription, ErrClosed
// that Close was called; after a context error or a *GapError the subscription can be read on.
func (s *Subscription) Next(ctx context.Context) (Event, error) { return Event{}, ErrClosed }

// NextBatch waits for an event like Next and appends it, and those that arrived in the same frame, to dst.
func (s *Subscription) NextBatch(ctx context.Context, dst []Event) ([]Event, error) {
	return dst, ErrClosed
}

// All ranges over the events. It ends after yielding an error other than a *GapError, or without one when the broker has
// ended the subscription.
func (s *Subscription) All(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {}
}

// Each calls f for every event until f or the subscription fails, and returns that error. It returns nil when the broker has
// ended the subscription.
func (s *Subscription) Each(ctx context.Context, f func(Event) error) error { return ErrClosed }

// Close ends the subscription and wakes a waiting reader. The broker is told.
func (s *Subscription) Close() error { return nil }

// Stats returns the counters of the subscription.
func (s *Subscription) Stats() SubscriptionStats { return SubscriptionStats{} }

// SubscriptionStats are counters since Subscribe.
type SubscriptionStats struct {
	Frames      uint64 // event frames received
	Events      uint64 // events received
	Bytes       uint64 // payload bytes received
	Skipped     uint64 // records known to be missing
	Resumptions uint64 // times the subscription was made again
	Unknown     uint64 // resumptions after which an unknown number of records may be missing
}
