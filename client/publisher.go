package client

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"felix/wire"
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
	// Key, unless nil, is the routing key of all messages, see WithKey.
	Key []byte
	// OnError is told of each batch that failed for good, in order, by a goroutine of the Publisher. It must not block
	// nor call the Publisher. Flush and Close return the first of these errors as well.
	OnError func(*PublishError)
}

// Publisher sends messages to one Felix stream in batches and keeps several of them under way. The order of the calls is
// the order in the stream. It is safe for concurrent use.
type Publisher struct {
	c    *Client
	lane *lane
	head wire.PublishHeader
	o    PublisherOptions
	bad  error // the options are unusable

	ctx    context.Context // ends when Close gives up
	cancel context.CancelFunc
	wake   chan struct{} // buffered: the sender has something to look at

	mu      sync.Mutex
	open    wire.BatchBuilder // the batch that is being filled
	filling bool              // open has begun
	timer   *time.Timer       // completes the open batch
	ready   []*batch          // complete, not sent
	sent    []*batch          // sent and not settled, in order
	rewind  bool              // sent[0] has to be sent again, once all of sent is answered
	free    []*batch          // for reuse
	frames  [][]byte          // their memory
	failed  []*PublishError   // not reported to OnError yet
	first   error             // first failure since the last Flush
	sending bool              // the sender runs
	closed  bool
	changed chan struct{} // closed at the next change that a waiter may wait for; nil: nobody waits
	stats   PublisherStats
}

// maxReady is the number of complete batches that may wait for the sender.
const maxReady = 2

// NewPublisher makes a Publisher for a Felix stream. Bad options are reported by its first call. Close must be called in the
// end; Client.Close does it otherwise.
func (c *Client) NewPublisher(stream string, o PublisherOptions) *Publisher {
	p := &Publisher{c: c, lane: c.routes.lane(stream), wake: make(chan struct{}, 1)}
	p.ctx, p.cancel = context.WithCancel(c.life)
	p.o, p.bad = o.withDefaults(c.cfg)
	p.head = c.publishHeader(stream, PublishOption{ack: p.o.Ack, key: o.Key, hasKey: o.Key != nil})
	if _, err := wire.AppendPublishBatch(nil, p.head, nil); err != nil && p.bad == nil {
		p.bad = fmt.Errorf("felix: publisher: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		p.closed = true
		return p
	}
	c.publishers[p] = struct{}{}
	return p
}

func (o PublisherOptions) withDefaults(cfg Config) (PublisherOptions, error) {
	o.MaxEvents = cmp.Or(o.MaxEvents, DefaultBatchEvents)
	o.MaxBytes = cmp.Or(o.MaxBytes, DefaultBatchBytes)
	o.MaxDelay = cmp.Or(o.MaxDelay, DefaultBatchDelay)
	if o.Retry == AtLeastOnce && o.Ack == AckNone {
		return o, fmt.Errorf("%w: AtLeastOnce needs acknowledgements", ErrConfig)
	}
	if o.Ack != AckNone {
		o.Retry = max(o.Retry, cfg.Retry)
	}
	switch {
	case o.MaxEvents < 0:
		return o, fmt.Errorf("%w: MaxEvents is %d", ErrConfig, o.MaxEvents)
	case o.MaxBytes < 0:
		return o, fmt.Errorf("%w: MaxBytes is %d", ErrConfig, o.MaxBytes)
	case o.Ack > AckNone:
		return o, fmt.Errorf("%w: ack mode %d", ErrConfig, o.Ack)
	case o.Retry > AtLeastOnce:
		return o, fmt.Errorf("%w: retry policy %d", ErrConfig, o.Retry)
	}
	return o, nil
}

// Publish adds a message to the current batch. It waits only while the bounds of what may be under way are reached. The
// payload is copied. A nil error says that the message was taken, not that it has arrived: see Flush.
//
// Without OnError, Publish also reports an earlier failure: it returns the *PublishError, once, and does not take the
// message.
func (p *Publisher) Publish(ctx context.Context, payload []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.add(ctx, payload)
}

// PublishBatch adds several messages, as if by as many calls of Publish. If it fails, some of them may have been taken.
func (p *Publisher) PublishBatch(ctx context.Context, payloads [][]byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, payload := range payloads {
		if err := p.add(ctx, payload); err != nil {
			return err
		}
	}
	return nil
}

// add takes one message. It is called with the lock held and gives it up while it waits.
func (p *Publisher) add(ctx context.Context, payload []byte) error {
	limit := p.c.cfg.MaxFrameBytes
	for {
		if err := p.usable(); err != nil {
			return err
		}
		if p.filling && !p.fits(len(payload), limit) {
			p.seal()
		}
		if p.filling || len(p.ready) < maxReady {
			break
		}
		if err := p.waitChange(ctx); err != nil {
			return err
		}
	}
	if !p.filling {
		if size := p.head.PayloadLen(1, len(payload)); size > limit {
			return &TooLargeError{Size: size, Limit: limit}
		}
		if err := p.begin(); err != nil {
			return err
		}
	}
	p.open.Add(payload)
	p.stats.Accepted++
	if p.open.Len() >= p.o.MaxEvents || p.open.Bytes() >= p.o.MaxBytes {
		p.seal()
	}
	return nil
}

func (p *Publisher) usable() error {
	switch {
	case p.bad != nil:
		return p.bad
	case p.closed:
		return ErrClosed
	case p.first != nil && p.o.OnError == nil:
		err := p.first
		p.first = nil
		return err
	}
	return nil
}

// fits reports whether the open batch takes a further message of n bytes.
func (p *Publisher) fits(n, limit int) bool {
	return p.open.Bytes()+n <= p.o.MaxBytes && p.open.PayloadLen()+wire.ItemOverhead+n <= limit
}

// begin starts a batch.
func (p *Publisher) begin() error {
	var frame []byte
	if n := len(p.frames); n > 0 {
		frame, p.frames = p.frames[n-1], p.frames[:n-1]
	}
	if err := p.open.Begin(frame[:0], p.head); err != nil {
		return fmt.Errorf("felix: publisher: %w", err)
	}
	p.filling = true
	if p.o.MaxDelay > 0 && p.o.MaxEvents > 1 {
		p.startTimer()
	}
	return nil
}

func (p *Publisher) startTimer() {
	if p.timer == nil {
		p.timer = time.AfterFunc(p.o.MaxDelay, p.overdue)
		return
	}
	p.timer.Reset(p.o.MaxDelay)
}

// overdue completes the open batch when its time has come. The timer of a batch that was completed otherwise may still
// fire and then completes the next one a little early.
func (p *Publisher) overdue() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.filling {
		p.seal()
	}
}

// seal completes the open batch and wakes the sender.
func (p *Publisher) seal() {
	b := p.newBatch()
	b.count, b.bytes, b.flags = p.open.Len(), p.open.Bytes(), p.head.Flags()
	frame, err := p.open.Finish()
	p.filling = false
	if p.timer != nil {
		p.timer.Stop()
	}
	b.frame, b.err = frame, err
	if err != nil { // cannot happen within Config.MaxFrameBytes
		p.account(b)
		return
	}
	p.ready = append(p.ready, b)
	p.startSender()
}

func (p *Publisher) startSender() {
	if !p.sending {
		p.sending = true
		if !p.c.spawn(p.send) {
			p.sending = false
			p.abort(ErrClosed)
		}
		return
	}
	p.signal()
}

func (p *Publisher) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// waitChange gives up the lock until something has changed.
func (p *Publisher) waitChange(ctx context.Context) error {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	changed := p.changed
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *Publisher) notify() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// Flush sends what is waiting and returns when every message taken before is acknowledged (with AckNone: written) or has
// failed. It returns the first *PublishError since the last Flush, or nil.
func (p *Publisher) Flush(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bad != nil {
		return p.bad
	}
	return p.flush(ctx)
}

func (p *Publisher) flush(ctx context.Context) error {
	if p.filling {
		p.seal()
	}
	goal := p.stats.Accepted
	for p.stats.Acked+p.stats.Failed < goal {
		if err := p.waitChange(ctx); err != nil {
			return err
		}
	}
	err := p.first
	p.first = nil
	return err
}

// Close flushes and ends the Publisher. If the context ends first, what is under way is given up and the context's
// error returned. Further calls return nil.
func (p *Publisher) Close(ctx context.Context) error {
	p.c.mu.Lock()
	delete(p.c.publishers, p)
	p.c.mu.Unlock()

	defer p.report()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.bad != nil {
		p.cancel()
		return nil
	}
	p.closed = true
	err := p.flush(ctx)
	p.cancel()
	for p.sending {
		if p.waitChange(context.Background()) != nil { // the sender has been told to end
			break
		}
	}
	return err
}

// Stats returns the counters of the publisher.
func (p *Publisher) Stats() PublisherStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// PublisherStats are counters since NewPublisher, in messages except where noted.
type PublisherStats struct {
	Accepted uint64 // taken by Publish
	Acked    uint64 // acknowledged (with AckNone: written)
	Failed   uint64 // failed for good
	Resent   uint64 // sent again
	Batches  uint64 // batches sent, repetitions included
}

// errGivenUp is why a batch failed that was under way when the Publisher had to end.
var errGivenUp = fmt.Errorf("given up by Close: %w", ErrClosed)
