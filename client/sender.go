package client

import (
	"errors"
	"slices"
)

// batch is a batch of a Publisher.
type batch struct {
	request
	p        *Publisher
	attempts int   // times sent, also together with a batch before it
	failures int   // times it had to be sent again for its own sake
	answered bool  // err is the result of the last attempt
	err      error // meaningful if answered
	dropped  bool  // the Publisher has given it up
}

// maxFree bounds the batches and the frames kept for reuse.
const maxFree = 8

// errHeldBack is why a batch was not sent that was about to be when one before it failed.
var errHeldBack error = &unsentError{errors.New("held back behind a failed batch")}

func (p *Publisher) newBatch() *batch {
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free = p.free[:n-1]
		b.attempts, b.failures, b.answered, b.err = 0, 0, false, nil
		return b
	}
	b := &batch{p: p}
	b.owner = b
	return b
}

// send is the goroutine that sends the batches, in order. It ends with the Publisher.
func (p *Publisher) send() {
	for {
		b, failures := p.next()
		if b == nil {
			return
		}
		if failures > 0 && p.c.sleep(p.ctx, p.c.cfg.Backoff.pause(failures)) != nil {
			continue // next sees that the Publisher has ended
		}
		p.transmit(b)
	}
}

// next waits for a batch to be sent. failures in a row call for a pause before it. Nil ends the sender.
func (p *Publisher) next() (b *batch, failures int) {
	for {
		b, failures, end := p.pick()
		p.report()
		if b != nil {
			return b, failures
		}
		if end {
			p.leave()
			return nil, 0
		}
		select {
		case <-p.wake:
		case <-p.ctx.Done():
		}
	}
}

// leave ends the sender, after it has reported everything.
func (p *Publisher) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sending = false
	p.notify()
}

// pick takes the next batch, if there is one that may be sent, or says that the sender has to end.
func (p *Publisher) pick() (b *batch, failures int, end bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil || p.closed && p.drained() {
		p.abort(errGivenUp)
		return nil, 0, true
	}
	if p.rewind && !p.outstanding() {
		failures = p.startOver()
	}
	if p.rewind || len(p.ready) == 0 {
		return nil, 0, false
	}
	b = p.ready[0]
	p.ready = slices.Delete(p.ready, 0, 1)
	p.sent = append(p.sent, b)
	b.answered, b.err = false, nil
	b.attempts++
	p.stats.Batches++
	p.notify()
	return b, failures, false
}

// drained reports whether nothing is left to do.
func (p *Publisher) drained() bool { return !p.filling && len(p.ready) == 0 && len(p.sent) == 0 }

// outstanding reports whether a batch is with the publish stream.
func (p *Publisher) outstanding() bool {
	return slices.ContainsFunc(p.sent, func(b *batch) bool { return !b.answered })
}

// startOver puts what has to be sent again back in front of the queue. With AtLeastOnce that is everything from the first
// failure on, what was acknowledged behind it included: sent alone, the failed batch would end up behind it. With
// AtMostOnce it is the batches at the end of the line of which nothing was sent; one before a batch that was sent fails.
// It returns how often in a row the first of them was refused or lost.
func (p *Publisher) startOver() (failures int) {
	p.rewind = false
	if p.o.Retry == AtMostOnce {
		for slices.ContainsFunc(p.sent, func(b *batch) bool { return !notSent(b.err) }) {
			p.retire()
		}
	}
	if len(p.sent) == 0 {
		return 0
	}
	failures = p.sent[0].failures
	if notSent(p.sent[0].err) {
		failures-- // nobody has refused it
	}
	for _, b := range p.sent {
		p.stats.Resent += uint64(b.count)
	}
	p.ready = append(p.sent, p.ready...)
	p.sent = nil
	return failures
}

// transmit hands a batch to the publish stream.
func (p *Publisher) transmit(b *batch) {
	ps, err := p.lane.stream(p.ctx)
	if err == nil {
		err = p.lane.room.acquire(p.ctx, b.size())
	}
	if err != nil {
		if p.ctx.Err() != nil {
			err = errGivenUp
		}
		b.done(&b.request, err)
		return
	}
	if p.isRewinding() {
		p.lane.room.release(b.size())
		b.done(&b.request, errHeldBack)
		return
	}
	ps.submit(&b.request)
}

func (p *Publisher) isRewinding() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rewind
}

// done takes the result of an attempt.
func (b *batch) done(_ *request, err error) {
	b.p.mu.Lock()
	defer b.p.mu.Unlock()
	if b.dropped {
		return
	}
	b.answered, b.err = true, err
	b.p.settle()
}

// settle takes the answered batches off the head of the line.
func (p *Publisher) settle() {
	for len(p.sent) > 0 && p.sent[0].answered && !p.rewind {
		if b := p.sent[0]; b.err != nil && p.again(b) {
			b.failures++
			p.rewind = true
			break
		}
		p.retire()
	}
	if p.rewind || p.closed {
		p.signal()
	}
	p.notify()
}

// again reports whether a batch that failed is to be sent again.
func (p *Publisher) again(b *batch) bool {
	if b.failures+1 >= p.c.cfg.MaxAttempts || p.ctx.Err() != nil {
		return false
	}
	return notSent(b.err) || p.o.Retry == AtLeastOnce && repeatable(b.err)
}

// retire takes the first batch, which has its final result, off the line and keeps its memory.
func (p *Publisher) retire() {
	b := p.sent[0]
	p.sent = slices.Delete(p.sent, 0, 1)
	p.account(b)
	if len(p.free) < maxFree {
		p.free = append(p.free, b)
	}
	if len(p.frames) < maxFree && cap(b.frame) <= maxPooledFrame {
		p.frames = append(p.frames, b.frame)
	}
	b.frame, b.out = nil, nil
}

// account counts the final result of a batch.
func (p *Publisher) account(b *batch) {
	if b.err == nil {
		p.stats.Acked += uint64(b.count)
		return
	}
	p.stats.Failed += uint64(b.count)
	e := &PublishError{Stream: p.head.Stream, Messages: b.count, Attempts: b.attempts, Err: b.err}
	if p.first == nil {
		p.first = e
	}
	if p.o.OnError != nil {
		p.failed = append(p.failed, e)
		p.signal()
	}
}

// abort fails everything that has no result. The publish stream may still use what was sent, so none of it is reused.
func (p *Publisher) abort(cause error) {
	p.rewind = false
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.filling {
		p.seal()
	}
	for _, b := range append(p.sent, p.ready...) {
		b.dropped = true
		if !b.answered || b.err != nil {
			b.err = cause
		}
		p.account(b)
	}
	p.sent, p.ready = nil, nil
	p.notify()
}

// report tells OnError of the failures.
func (p *Publisher) report() {
	if p.o.OnError == nil {
		return
	}
	p.mu.Lock()
	failed := p.failed
	p.failed = nil
	p.mu.Unlock()
	for _, e := range failed {
		p.o.OnError(e)
	}
}
