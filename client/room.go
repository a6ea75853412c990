package client

import (
	"context"
	"sync"
)

// room bounds the publishes under way on a stream, in bytes and in requests. Waiting callers are served in order.
type room struct {
	maxBytes    int64
	maxRequests int

	mu       sync.Mutex
	bytes    int64
	requests int
	queue    []*roomWaiter
}

type roomWaiter struct {
	bytes   int64
	granted chan struct{}
}

// acquire takes room for a request of n bytes. One larger than the whole room waits until it is alone.
func (r *room) acquire(ctx context.Context, n int64) error {
	r.mu.Lock()
	if len(r.queue) == 0 && r.fits(n) {
		r.take(n)
		r.mu.Unlock()
		return nil
	}
	w := &roomWaiter{bytes: n, granted: make(chan struct{})}
	r.queue = append(r.queue, w)
	r.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
		r.leave(w)
		return ctx.Err()
	}
}

// release gives the room of a request back.
func (r *room) release(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes -= n
	r.requests--
	r.serve()
}

// leave takes a waiter out of the queue, or gives back what it has just been granted.
func (r *room) leave(w *roomWaiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, q := range r.queue {
		if q == w {
			r.queue = append(r.queue[:i], r.queue[i+1:]...)
			r.serve()
			return
		}
	}
	r.bytes -= w.bytes
	r.requests--
	r.serve()
}

func (r *room) serve() {
	for len(r.queue) > 0 && r.fits(r.queue[0].bytes) {
		w := r.queue[0]
		r.queue[0] = nil
		r.queue = r.queue[1:]
		r.take(w.bytes)
		close(w.granted)
	}
}

func (r *room) fits(n int64) bool {
	return r.requests == 0 || r.requests < r.maxRequests && r.bytes+n <= r.maxBytes
}

func (r *room) take(n int64) {
	r.bytes += n
	r.requests++
}

// empty reports whether nothing is under way.
func (r *room) empty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests == 0
}
