package broker

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// budget is a counted resource with waiters served in the order they came.
// Taking and giving back without waiters is one atomic operation each.
type budget struct {
	limit   int64
	used    atomic.Int64
	waiting atomic.Int32

	mu      sync.Mutex
	waiters list.List // of *budgetWaiter, in the order they came
}

type budgetWaiter struct {
	n       int64
	granted chan struct{} // closed with the grant made
	done    bool          // granted; guarded by budget.mu
}

// fits: n may go in beside used. What is larger than the whole budget goes in
// alone.
func (b *budget) fits(used, n int64) bool { return used == 0 || used+n <= b.limit }

func (b *budget) take(n int64) bool {
	for {
		used := b.used.Load()
		if !b.fits(used, n) {
			return false
		}
		if b.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// tryAcquire takes n unless there is no room or somebody came first.
func (b *budget) tryAcquire(n int64) bool {
	return b.waiting.Load() == 0 && b.take(n)
}

// release gives n back and serves those who wait.
func (b *budget) release(n int64) {
	b.used.Add(-n)
	if b.waiting.Load() != 0 {
		b.mu.Lock()
		b.serve()
		b.mu.Unlock()
	}
}

// serve grants from the front while there is room. b.mu is held.
func (b *budget) serve() {
	for first := b.waiters.Front(); first != nil; first = b.waiters.Front() {
		w := first.Value.(*budgetWaiter)
		if !b.take(w.n) {
			return
		}
		w.done = true
		close(w.granted)
		b.waiting.Add(-1)
		b.waiters.Remove(first)
	}
}

// waitOutcome says how a wait ended.
type waitOutcome uint8

const (
	waitGranted waitOutcome = iota
	waitTimedOut
	waitCancelled
	waitClosed
)

// limits are the ways in which one Submit stops waiting. The timer is made when
// the first wait begins and then covers all waits of that Submit.
type limits struct {
	ctx     context.Context
	bounded time.Duration // 0: no limit
	timer   *time.Timer
	closed  [3]<-chan struct{} // broker, account, stream; nil: cannot happen
}

func (l *limits) timeout() <-chan time.Time {
	if l.bounded == 0 {
		return nil
	}
	if l.timer == nil {
		l.timer = time.NewTimer(l.bounded)
	}
	return l.timer.C
}

func (l *limits) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

// acquire waits for n in turn.
func (b *budget) acquire(n int64, l *limits) waitOutcome {
	w := &budgetWaiter{n: n, granted: make(chan struct{})}
	b.mu.Lock()
	b.waiting.Add(1)
	place := b.waiters.PushBack(w)
	b.serve()
	b.mu.Unlock()

	var out waitOutcome
	select {
	case <-w.granted:
		return waitGranted
	case <-l.timeout():
		out = waitTimedOut
	case <-l.ctx.Done():
		out = waitCancelled
	case <-l.closed[0]:
		out = waitClosed
	case <-l.closed[1]:
		out = waitClosed
	case <-l.closed[2]:
		out = waitClosed
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.done {
		return waitGranted // the grant came first
	}
	b.waiters.Remove(place)
	b.waiting.Add(-1)
	b.serve() // those behind w may fit
	return out
}
