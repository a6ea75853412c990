package session

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"felix/broker"
	"felix/wire"
)

// feeder writes the events of one subscription to its event stream.
type feeder struct {
	conn    *connection
	sub     *broker.Subscription
	stream  SendStream
	since   time.Time
	offsets bool // the client reads offsets
	out     eventWriter

	told chan error // whether the client knows that it is subscribed

	givenUp bool   // by a drain; guarded by conn.mu
	before  uint64 // bytes written before the drain; guarded by conn.mu

	replaying atomic.Bool
	wakeups   atomic.Uint64
}

const (
	// feedFrames is how many queue entries are taken at a time.
	feedFrames = 64
	// feedBytes bounds what is taken out of the bounded queue at a time; a
	// single larger frame is taken alone.
	feedBytes = 1 << 20
)

func newFeeder(c *connection, sub *broker.Subscription, s SendStream, offsets bool) *feeder {
	f := &feeder{conn: c, sub: sub, stream: s, since: time.Now(), offsets: offsets, told: make(chan error, 1)}
	f.out.init(s, c.server)
	f.replaying.Store(true)
	return f
}

// subscribed is called once, when the answer to the subscribe has been written,
// or could not be.
func (f *feeder) subscribed(err error) { f.told <- err }

// run feeds the event stream until the subscription ends.
func (f *feeder) run() {
	defer f.conn.removeFeeder(f)
	ctx := f.stream.Context() // ends as soon as the client stops the stream
	err := f.feed(ctx)
	f.out.release()
	count := &f.conn.server.count
	switch {
	case err == io.EOF:
		count.add(SubscriptionsEnded, 1)
		// A client takes FIN for the end of the stream it subscribed to, and
		// does not come back. At shutdown the connection is closed instead.
		if !f.conn.isDraining() {
			_ = f.stream.CloseWrite() // fails only if the stream is gone
		}
		return
	case ctx.Err() != nil:
		count.add(SubscriptionsStopped, 1)
	default:
		count.add(SubscriptionsBroken, 1)
	}
	f.sub.Discard()
	f.stream.CancelWrite(uint64(CodeNone))
}

// feed writes hello, replay and live events. It returns io.EOF once the broker
// has ended the subscription and everything was written.
func (f *feeder) feed(ctx context.Context) error {
	hello, err := wire.AppendMessageFrame(nil, &wire.EventStreamHello{SubscriptionID: f.sub.ID()})
	if err != nil {
		return err
	}
	if err := f.out.put(hello); err != nil {
		return err
	}
	select {
	case err := <-f.told:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := f.replay(); err != nil {
		return err
	}
	return f.live(ctx)
}

// replay writes the events from before the subscription.
func (f *feeder) replay() error {
	l := layout{owned: true, subID: f.sub.ID(), offsets: f.offsets && f.conn.server.cfg.Offsets != OffsetsNone}
	frames := f.sub.Replay()
	for len(frames) > 0 {
		n := min(len(frames), feedFrames)
		if err := f.out.write(l, frames[:n]); err != nil {
			return err
		}
		clear(frames[:n]) // a slow client need not keep alive what it has got
		frames = frames[n:]
	}
	f.replaying.Store(false)
	return f.out.flush()
}

// live writes the events published since.
func (f *feeder) live(ctx context.Context) error {
	l := layout{offsets: f.offsets && f.conn.server.cfg.Offsets == OffsetsAll}
	delay := f.conn.server.cfg.EventBatchMaxDelay
	taken := make([]broker.Delivery, 0, feedFrames)
	for {
		frames, err := f.sub.Next(ctx, taken, feedBytes)
		if err != nil {
			return err
		}
		n := len(frames)
		f.wakeups.Add(1)
		if delay > 0 {
			frames, err = f.gather(ctx, l, frames, delay)
		}
		if werr := f.out.write(l, frames); werr != nil {
			return werr
		}
		if werr := f.out.flush(); werr != nil {
			return werr
		}
		if err != nil {
			return err
		}
		clear(taken[:n]) // the next wait may be long: keep no frame alive
	}
}

// gather waits up to delay for more events as long as the last frame of what is
// there can take some. It returns everything that came, also with an error.
func (f *feeder) gather(ctx context.Context, l layout, frames []broker.Delivery, delay time.Duration) ([]broker.Delivery, error) {
	until, cancel := context.WithTimeout(ctx, delay)
	defer cancel()
	var more [feedFrames]broker.Delivery
	for f.out.open(l, frames) {
		got, err := f.sub.Next(until, more[:0], feedBytes)
		if err != nil {
			if ctx.Err() == nil && until.Err() != nil {
				return frames, nil
			}
			return frames, err
		}
		f.wakeups.Add(1)
		frames = append(frames, got...)
	}
	return frames, nil
}

func (f *feeder) stats(now time.Time) SubscriptionStats {
	return SubscriptionStats{
		Queue: f.sub.Stats(), Since: f.since, Offsets: f.offsets, Replaying: f.replaying.Load(),
		Frames: f.out.frames.Load(), Events: f.out.events.Load(), Bytes: f.out.bytes.Load(), Writes: f.out.writes.Load(),
		Wakeups: f.wakeups.Load(), BlockedFor: f.out.blockedFor(now),
	}
}
