package client

import (
	"context"
	"time"
)

// Defaults of PublisherOptions, see there.
const (
	DefaultBatchEvents = 64
	DefaultBatchBytes  = 256 << 10
	DefaultBatchDelay  = time.Millisecond
)

// PublisherOptions are the settings of a Publisher. Zero values stand for the defaults.
type PublisherOptions struct {
	// MaxEvents is the number of messages that completes a batch. Default 64.
	MaxEvents int
	// MaxBytes is the number of payload bytes that completes a batch; a larger message goes alone. Default 256 KiB.
	MaxBytes int
	// MaxDelay is how long a message waits for its batch to be completed by others. Negative: until Flush or Close.
	// Default 1 ms.
	MaxDelay time.Duration
	// Ack is the acknowledgement asked for. Default AckPerBatch.
	Ack AckMode
	// Retry is the policy for unacknowledged batches. AtLeastOnce does not go with AckNone. Default: Config.Retry.
	Retry Retry
	// OnError is told of each batch that failed for good, by a goroutine of the Publisher, in order. It must not block
	// nor call the Publisher. Errors are also returned by Flush and Close.
	OnError func(*PublishError)
}

// Publisher sends messages to one Felix stream in batches and keeps several of them under way. The order of the calls is
// the order in the stream. It is safe for concurrent use.
type Publisher struct{}

// NewPublisher makes a Publisher for a Felix stream. Bad options are reported by its first call. Close must be called in the
// end; Client.Close does it otherwise.
func (c *Client) NewPublisher(stream string, o PublisherOptions) *Publisher { return &Publisher{} }

// Publish adds a message to the current batch. It waits only while the bounds of what may be under way are reached. The
// payload is copied. A nil error says that the message was taken, not that it has arrived: see Flush.
func (p *Publisher) Publish(ctx context.Context, payload []byte) error { return ErrClosed }

// PublishBatch adds several messages, as if by as many calls of Publish without others in between.
func (p *Publisher) PublishBatch(ctx context.Context, payloads [][]byte) error { return ErrClosed }

// Flush sends what is waiting and returns when every message taken so far is acknowledged (with AckNone: written) or has
// failed. It returns the first *PublishError since the last Flush, or nil.
func (p *Publisher) Flush(ctx context.Context) error { return ErrClosed }

// Close flushes and ends the Publisher. If the context ends first, what is under way is given up.
func (p *Publisher) Close(ctx context.Context) error { return nil }

// Stats returns the counters of the publisher.
func (p *Publisher) Stats() PublisherStats { return PublisherStats{} }

// PublisherStats are counters since NewPublisher, in messages except where noted.
type PublisherStats struct {
	Accepted uint64 // taken by Publish
	Acked    uint64 // acknowledged (with AckNone: written)
	Failed   uint64 // failed for good
	Resent   uint64 // sent again
	Batches  uint64 // batches sent, repetitions included
}
