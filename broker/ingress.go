package broker

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"

	"felix/wire"
)

// Account is the share of the byte budget, and the count of subscriptions, of
// one connection.
type Account struct {
	bytes         budget
	subscriptions atomic.Int64
	maxSubs       int64
	closed        atomic.Bool
	done          chan struct{} // closed with closed
}

// NewAccount opens an account with Options.ConnInflightBytes and
// Options.MaxSubscriptionsPerConn.
func (b *Broker) NewAccount() *Account {
	return &Account{
		bytes:   budget{limit: b.opts.ConnInflightBytes},
		maxSubs: int64(b.opts.MaxSubscriptionsPerConn),
		done:    make(chan struct{}),
	}
}

// Close makes every Submit on the account, waiting ones included, fail with
// ErrAdmissionClosed. What was accepted before is published all the same.
func (a *Account) Close() {
	if !a.closed.Swap(true) {
		close(a.done)
	}
}

// InflightBytes returns the frame bytes charged to the account at the moment.
func (a *Account) InflightBytes() int64 { return a.bytes.used.Load() }

// Subscriptions returns the number of open subscriptions of the account.
func (a *Account) Subscriptions() int { return int(a.subscriptions.Load()) }

// job is an accepted publication on its way to a worker.
type job struct {
	batch     Batch
	parts     []Batch // the event frames of a batch that was split, else nil
	account   *Account
	completer Completer
	token     uint64
}

// charge is what a job takes from the byte budgets.
func (j *job) charge() int64 { return int64(len(j.batch.Frame)) }

// lane is where publications of one stream wait for its worker.
type lane struct {
	slots budget // publications accepted and not yet done

	mu        sync.Mutex
	jobs      []job
	queued    Tally  // of jobs
	counts    Counts // Submitted, Refused*, Accepted, Waited, Split
	scheduled bool   // the worker knows that there is something to do
	closed    bool   // the stream was deleted
}

// Submit offers a publication. With a nil error it is accepted: it will be
// published in the order of acceptance, and Completer, if any, is called exactly
// once. Otherwise the error says why it was refused (see ErrOverloaded,
// ErrAdmissionClosed, *StreamGoneError, *InvalidFrameError, or the context's
// error), and nothing is called.
//
// From acceptance on the frame is shared: nobody may write to it any more.
// Concurrent calls for the same stream are accepted in some order; calls from
// one goroutine keep theirs.
func (b *Broker) Submit(ctx context.Context, p Publication, w Wait) error {
	s := p.Stream
	j := job{batch: p.Batch, account: p.Account, completer: p.Completer, token: p.Token}
	if err := checkFrame(p.Batch); err != nil {
		return s.refuse(RefusedInvalid, p.Batch, false, err)
	}
	waited, counter, err := b.admit(ctx, s, &j, w, p.OnWait)
	if err != nil {
		return s.refuse(counter, p.Batch, waited, err)
	}
	if p.Batch.Count > b.opts.EventBatchMaxEvents || (p.Batch.Bytes > b.opts.EventBatchMaxBytes && p.Batch.Count > 1) {
		if j.parts, err = splitBatch(p.Batch, b.opts.EventBatchMaxEvents, b.opts.EventBatchMaxBytes); err != nil {
			b.unadmit(s, &j)
			return s.refuse(RefusedInvalid, p.Batch, waited, err)
		}
	}
	if counter, err = s.enqueue(j, waited); err != nil {
		b.unadmit(s, &j)
		return s.refuse(counter, p.Batch, waited, err)
	}
	return nil
}

// checkFrame finds out cheaply whether the frame is one that can be shared.
func checkFrame(b Batch) error {
	h, err := wire.ParseHeader(b.Frame, len(b.Frame))
	switch {
	case err != nil:
		return &InvalidFrameError{Reason: err.Error()}
	case h.Flags != wire.FlagEventBatchShared:
		return &InvalidFrameError{Reason: "not a shared event batch"}
	case wire.HeaderLen+int(h.Length) != len(b.Frame) || h.Length < 4:
		return &InvalidFrameError{Reason: "length does not match the header"}
	case uint64(binary.BigEndian.Uint32(b.Frame[wire.HeaderLen:])) != uint64(b.Count):
		return &InvalidFrameError{Reason: "count does not match the frame"}
	case len(b.Frame) != wire.HeaderLen+4+b.Count*wire.ItemOverhead+b.Bytes:
		return &InvalidFrameError{Reason: "payload bytes do not match the frame"}
	}
	return nil
}

// splitBatch cuts a batch into event frames within the limits.
func splitBatch(b Batch, maxEvents, maxBytes int) ([]Batch, error) {
	ev, err := wire.ParseEventBatch(wire.FlagEventBatchShared, b.Frame[wire.HeaderLen:])
	if err != nil {
		return nil, &InvalidFrameError{Reason: err.Error()}
	}
	parts := make([]Batch, 0, max(ev.Items.Len()/maxEvents, ev.Items.Bytes()/maxBytes)+1)
	for run := range wire.SplitItems(ev.Items, maxEvents, maxBytes) {
		frame := wire.AppendSharedEvents(nil, nil, run)
		parts = append(parts, Batch{Frame: frame[:len(frame):len(frame)], Count: run.Len(), Bytes: run.Bytes()})
	}
	return parts, nil
}

// admit takes the bytes and the place in the stream's queue that j needs. It
// holds nothing when it fails, and while it calls onWait.
func (b *Broker) admit(ctx context.Context, s *Stream, j *job, w Wait, onWait func()) (waited bool, _ Counter, _ error) {
	if b.closing.Load() || (j.account != nil && j.account.closed.Load()) {
		return false, RefusedClosed, ErrAdmissionClosed
	}
	n := j.charge()
	conn := j.account == nil || j.account.bytes.tryAcquire(n)
	process := conn && b.inflight.tryAcquire(n)
	if process && s.lane.slots.tryAcquire(1) {
		return false, 0, nil
	}
	if w == WaitNone {
		switch {
		case !conn:
			return false, RefusedConnBytes, ErrConnBytes
		case !process:
			b.giveBack(j, conn, false)
			return false, RefusedProcessBytes, ErrProcessBytes
		}
		b.giveBack(j, conn, true)
		return false, RefusedQueueFull, ErrQueueFull
	}
	b.giveBack(j, conn, process)
	if onWait != nil {
		onWait()
	}
	counter, err := b.admitWaiting(ctx, s, j, w)
	return true, counter, err
}

// admitWaiting takes one after the other what admit found no room for.
func (b *Broker) admitWaiting(ctx context.Context, s *Stream, j *job, w Wait) (Counter, error) {
	l := limits{ctx: ctx, closed: [3]<-chan struct{}{0: b.done, 2: s.done}}
	if j.account != nil {
		l.closed[1] = j.account.done
	}
	if w == WaitBounded {
		l.bounded = b.opts.QueueWait
	}
	defer l.stop()
	if j.account != nil {
		if out := j.account.bytes.acquire(j.charge(), &l); out != waitGranted {
			return b.waitFailed(ctx, s, out, RefusedAdmissionTimeout, ErrAdmissionTimeout)
		}
	}
	if out := b.inflight.acquire(j.charge(), &l); out != waitGranted {
		b.giveBack(j, true, false)
		return b.waitFailed(ctx, s, out, RefusedAdmissionTimeout, ErrAdmissionTimeout)
	}
	if out := s.lane.slots.acquire(1, &l); out != waitGranted {
		b.giveBack(j, true, true)
		return b.waitFailed(ctx, s, out, RefusedEnqueueTimeout, ErrEnqueueTimeout)
	}
	return 0, nil
}

func (b *Broker) waitFailed(ctx context.Context, s *Stream, out waitOutcome, timeout Counter, err error) (Counter, error) {
	switch {
	case out == waitTimedOut:
		return timeout, err
	case out == waitCancelled:
		return RefusedCancelled, context.Cause(ctx)
	case !b.closing.Load() && !s.Active():
		return RefusedStreamGone, &StreamGoneError{Handle: s.handle}
	}
	return RefusedClosed, ErrAdmissionClosed
}

func (b *Broker) giveBack(j *job, conn, process bool) {
	if conn && j.account != nil {
		j.account.bytes.release(j.charge())
	}
	if process {
		b.inflight.release(j.charge())
	}
}

func (b *Broker) unadmit(s *Stream, j *job) {
	s.lane.slots.release(1)
	b.giveBack(j, true, true)
}

// enqueue hands an admitted job to the worker.
func (s *Stream) enqueue(j job, waited bool) (Counter, error) {
	l := &s.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return RefusedStreamGone, &StreamGoneError{Handle: s.handle}
	case s.broker.closing.Load():
		return RefusedClosed, ErrAdmissionClosed
	}
	events, bytes := j.batch.Count, j.batch.Bytes
	l.counts.add(Submitted, events, bytes)
	l.counts.add(Accepted, events, bytes)
	if waited {
		l.counts.add(Waited, events, bytes)
	}
	if j.parts != nil {
		l.counts.add(Split, events, bytes)
	}
	l.queued.add(events, bytes)
	l.jobs = append(l.jobs, j)
	if !l.scheduled {
		l.scheduled = true
		s.worker.schedule(s)
	}
	return 0, nil
}

// refuse counts a publication that was not accepted, and returns err.
func (s *Stream) refuse(c Counter, batch Batch, waited bool, err error) error {
	s.lane.mu.Lock()
	defer s.lane.mu.Unlock()
	events, bytes := max(batch.Count, 0), max(batch.Bytes, 0)
	s.lane.counts.add(Submitted, events, bytes)
	s.lane.counts.add(c, events, bytes)
	if waited {
		s.lane.counts.add(Waited, events, bytes)
	}
	return err
}
