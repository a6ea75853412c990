package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"felix/wire"
)

// payloads returns what the broker has received, in order.
func payloads(log []received) (all []string) {
	for _, r := range log {
		all = append(all, r.payloads...)
	}
	return all
}

func TestPublisherKeepsOrder(t *testing.T) {
	for _, mode := range []AckMode{AckNone, AckPerMessage, AckPerBatch} {
		b := newFakeBroker("s")
		h := start(t, b)
		p := h.NewPublisher("s", PublisherOptions{Ack: mode, MaxDelay: -1})
		const n = 20001
		for _, m := range numbered(n) {
			if err := p.Publish(patient(t), []byte(m)); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Close(patient(t)); err != nil {
			t.Fatal(err)
		}
		waitFor(t, func() bool { return len(payloads(b.requests())) == n })
		if !slices.Equal(payloads(b.requests()), numbered(n)) {
			t.Errorf("mode %d: order lost", mode)
		}
		want := PublisherStats{Accepted: n, Acked: n, Batches: n/64 + 1}
		if got := p.Stats(); got != want {
			t.Errorf("mode %d: stats %+v, want %+v", mode, got, want)
		}
		if err := p.Publish(patient(t), nil); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		if err := p.Close(patient(t)); err != nil {
			t.Errorf("second Close: %v", err)
		}
	}
}

func TestPublisherBatchLimits(t *testing.T) {
	b := newFakeBroker("s")
	h := start(t, b)
	p := h.NewPublisher("s", PublisherOptions{MaxEvents: 3, MaxBytes: 10, MaxDelay: -1})
	for _, m := range []string{"a", "b", "c", "dddddd", "eeeee", strings.Repeat("f", 30), "g"} {
		if err := p.Publish(patient(t), []byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.PublishBatch(patient(t), [][]byte{[]byte("h"), []byte("i"), []byte("j")}); err != nil {
		t.Fatal(err)
	}
	if err := p.Flush(patient(t)); err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for _, r := range b.requests() {
		sizes = append(sizes, len(r.payloads))
	}
	// abc by count, d alone because e would not fit, e alone because f would not, f alone, ghi by count, j by Flush.
	if !slices.Equal(sizes, []int{3, 1, 1, 1, 3, 1}) {
		t.Errorf("batches of %v", sizes)
	}
}

func TestPublisherDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker("s")
		h := start(t, b)
		p := h.NewPublisher("s", PublisherOptions{MaxDelay: 20 * time.Millisecond})
		quiet := h.NewPublisher("s", PublisherOptions{MaxDelay: -1})
		for _, m := range []string{"a", "b"} {
			if err := p.Publish(context.Background(), []byte(m)); err != nil {
				t.Fatal(err)
			}
			if err := quiet.Publish(context.Background(), []byte("q")); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(19 * time.Millisecond)
		synctest.Wait()
		if n := len(b.requests()); n != 0 {
			t.Errorf("%d batches before the delay", n)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if log := b.requests(); len(log) != 1 || !slices.Equal(log[0].payloads, []string{"a", "b"}) {
			t.Errorf("after the delay: %+v", log)
		}
		time.Sleep(time.Hour)
		if n := len(b.requests()); n != 1 {
			t.Errorf("a publisher without delay sent by itself")
		}
	})
}

// A refused batch fails alone: those behind it have answers of their own.
func TestPublisherAtMostOnceRefusal(t *testing.T) {
	b := newFakeBroker("s")
	b.onPublish = func(r received) (string, bool) {
		if r.payloads[0] == "2" || r.payloads[0] == "4" {
			return wire.TextQueueFull, true
		}
		return "", true
	}
	h := start(t, b)
	var mu sync.Mutex
	var told []string
	for _, callback := range []bool{false, true} {
		o := PublisherOptions{MaxEvents: 1}
		if callback {
			o.OnError = func(e *PublishError) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, fmt.Sprintf("%d %d %s", e.Messages, e.Attempts, e.Stream))
			}
		}
		p := h.NewPublisher("s", o)
		reported := 0
		for _, m := range numbered(6) {
			for {
				err := p.Publish(patient(t), []byte(m))
				var failed *PublishError
				if err == nil {
					break
				}
				if !errors.As(err, &failed) {
					t.Fatal(err)
				}
				reported++
			}
		}
		err := p.Close(patient(t))
		var failed *PublishError
		if errors.As(err, &failed) {
			reported++
		}
		var refused *ServerError
		if reported > 0 && err != nil && !errors.As(err, &refused) {
			t.Errorf("close: %v", err)
		}
		if reported == 0 {
			t.Error("no error reported")
		}
		if got, want := p.Stats(), (PublisherStats{Accepted: 6, Acked: 4, Failed: 2, Batches: 6}); got != want {
			t.Errorf("stats %+v, want %+v", got, want)
		}
	}
	if !slices.Equal(told, []string{"1 1 s", "1 1 s"}) {
		t.Errorf("OnError was told %q", told)
	}
	if got := payloads(b.requests()); !slices.Equal(got, append(numbered(6), numbered(6)...)) {
		t.Errorf("broker saw %v", got)
	}
}

// lastSeen is the order of the last arrival of each payload: what a reader ends up with under AtLeastOnce.
func lastSeen(all []string) (order []string) {
	for i, p := range all {
		if !slices.Contains(all[i+1:], p) {
			order = append(order, p)
		}
	}
	return order
}

// A batch that is sent again takes those behind it along, so that no message overtakes another one for good.
func TestPublisherAtLeastOnceRefusal(t *testing.T) {
	b := newFakeBroker("s")
	var mu sync.Mutex
	refusals := 0
	b.onPublish = func(r received) (string, bool) {
		mu.Lock()
		defer mu.Unlock()
		if r.payloads[0] == "5" && refusals < 3 {
			refusals++
			return wire.TextServerOverloaded, true
		}
		return "", true
	}
	h := start(t, b)
	p := h.NewPublisher("s", PublisherOptions{MaxEvents: 1, Retry: AtLeastOnce})
	for _, m := range numbered(50) {
		if err := p.Publish(patient(t), []byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(patient(t)); err != nil {
		t.Fatal(err)
	}
	var accepted []string
	n := 0
	for _, r := range b.requests() {
		if r.payloads[0] == "5" && n < 3 {
			n++
			continue
		}
		accepted = append(accepted, r.payloads...)
	}
	if got := lastSeen(accepted); !slices.Equal(got, numbered(50)) {
		t.Errorf("final order %v of %v", got, accepted)
	}
	if s := p.Stats(); s.Acked != 50 || s.Failed != 0 || s.Resent < 3 {
		t.Errorf("stats %+v", s)
	}
}

func TestPublisherAtLeastOnceThroughLostConnections(t *testing.T) {
	b := newFakeBroker("s")
	h := start(t, b)
	const n = 3000
	var sent atomic.Int64
	var cutter sync.WaitGroup
	cutter.Go(func() {
		for i := int64(1); i <= 10; i++ {
			waitFor(t, func() bool { return sent.Load() >= i*n/11 })
			h.cut()
		}
	})
	p := h.NewPublisher("s", PublisherOptions{MaxEvents: 7, Retry: AtLeastOnce})
	for _, m := range numbered(n) {
		if err := p.Publish(patient(t), []byte(m)); err != nil {
			t.Fatal(err)
		}
		sent.Add(1)
	}
	cutter.Wait()
	if err := p.Close(patient(t)); err != nil {
		t.Fatal(err)
	}
	if got := lastSeen(payloads(b.requests())); !slices.Equal(got, numbered(n)) {
		t.Errorf("final order has %d of %d messages", len(got), n)
	}
	if h.Stats().ConnectionsLost == 0 {
		t.Error("no connection was lost")
	}
}

// Under AtMostOnce a lost connection loses at most what was under way; nothing is doubled and the order is kept.
func TestPublisherAtMostOnceThroughLostConnections(t *testing.T) {
	b := newFakeBroker("s")
	h := start(t, b)
	const n = 3000
	var sent atomic.Int64
	var cutter sync.WaitGroup
	cutter.Go(func() {
		for i := int64(1); i <= 10; i++ {
			waitFor(t, func() bool { return sent.Load() >= i*n/11 })
			h.cut()
		}
	})
	var failed atomic.Int64
	p := h.NewPublisher("s", PublisherOptions{MaxEvents: 7, OnError: func(e *PublishError) { failed.Add(int64(e.Messages)) }})
	for _, m := range numbered(n) {
		if err := p.Publish(patient(t), []byte(m)); err != nil {
			t.Fatal(err)
		}
		sent.Add(1)
	}
	cutter.Wait()
	_ = p.Close(patient(t)) // its error is one of those counted
	got := payloads(b.requests())
	last := -1
	for _, m := range got {
		var i int
		if _, err := fmt.Sscan(m, &i); err != nil {
			t.Fatal(err)
		}
		if i <= last {
			t.Fatalf("%d after %d", i, last)
		}
		last = i
	}
	s := p.Stats()
	if s.Acked+s.Failed != n || s.Failed != uint64(failed.Load()) || len(got) < int(s.Acked) {
		t.Errorf("stats %+v, %d failures told, %d received", s, failed.Load(), len(got))
	}
}

// Memory is bounded: a publisher whose broker does not answer waits, and its context ends the waiting.
func TestPublisherBackPressure(t *testing.T) {
	b := newFakeBroker("s")
	b.onPublish = func(received) (string, bool) { return "", false }
	h := start(t, b, func(c *Config) { c.InflightBytes = 10000; c.AckTimeout = 200 * time.Millisecond })
	p := h.NewPublisher("s", PublisherOptions{MaxEvents: 1})
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	taken := 0
	for ; ; taken++ {
		if err := p.Publish(ctx, make([]byte, 1000)); err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			break
		}
	}
	if taken < 9 || taken > 9+maxReady+1 {
		t.Errorf("%d messages taken", taken)
	}
	if n := len(b.requests()); n != 9 {
		t.Errorf("%d messages sent, 9 fit the budget", n)
	}
	done, cancel2 := context.WithCancel(context.Background())
	cancel2()
	if err := p.Flush(done); !errors.Is(err, context.Canceled) {
		t.Errorf("flush: %v", err)
	}
	if err := p.Close(done); !errors.Is(err, context.Canceled) {
		t.Errorf("close: %v", err)
	}
	if s := p.Stats(); s.Accepted != uint64(taken) || s.Failed != s.Accepted {
		t.Errorf("stats %+v", s)
	}
}

func TestPublisherOptions(t *testing.T) {
	h := start(t, newFakeBroker("s"))
	for name, o := range map[string]PublisherOptions{
		"events":            {MaxEvents: -1},
		"bytes":             {MaxBytes: -1},
		"ack":               {Ack: AckNone + 1},
		"retry":             {Retry: AtLeastOnce + 1},
		"retry without ack": {Retry: AtLeastOnce, Ack: AckNone},
	} {
		p := h.NewPublisher("s", o)
		if err := p.Publish(patient(t), nil); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
		if err := p.Close(patient(t)); err != nil {
			t.Errorf("%s: close: %v", name, err)
		}
	}
	p := h.NewPublisher("\xff", PublisherOptions{})
	if err := p.Flush(patient(t)); !errors.Is(err, wire.ErrInvalidUTF8) {
		t.Errorf("stream name: %v", err)
	}
}

func TestPublisherConcurrentUse(t *testing.T) {
	b := newFakeBroker("s")
	h := start(t, b)
	p := h.NewPublisher("s", PublisherOptions{MaxDelay: 100 * time.Microsecond})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 500 {
				if err := p.Publish(patient(t), fmt.Appendf(nil, "%d %d", g, i)); err != nil {
					t.Error(err)
				}
				if i%100 == 0 {
					if err := p.Flush(patient(t)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if err := h.Close(patient(t)); err != nil {
		t.Fatal(err)
	}
	next := map[int]int{}
	for _, m := range payloads(b.requests()) {
		var g, i int
		if _, err := fmt.Sscan(m, &g, &i); err != nil {
			t.Fatal(err)
		}
		if i != next[g] {
			t.Fatalf("goroutine %d: %d after %d", g, i, next[g]-1)
		}
		next[g]++
	}
	if next[0]+next[1]+next[2]+next[3] != 2000 {
		t.Errorf("received %v", next)
	}
}

// Under AtMostOnce only batches of which nothing was sent are sent again, and none of them behind one that was sent.
func TestPublisherStartOver(t *testing.T) {
	lost, unsent := lostRequest(errStreamEnded), error(&unsentError{errStreamEnded})
	for _, c := range []struct {
		retry         Retry
		results       []error
		again         int // batches to be sent again
		acked, failed uint64
		failures      int // in a row, for the pause
	}{
		{AtMostOnce, []error{unsent, unsent}, 2, 0, 0, 0},
		{AtMostOnce, []error{unsent, nil, unsent}, 1, 1, 1, 0},
		{AtMostOnce, []error{unsent, lost, unsent, unsent}, 2, 0, 2, 0},
		{AtMostOnce, []error{unsent, unsent, nil}, 0, 1, 2, 0},
		{AtLeastOnce, []error{lost, nil, unsent, lost}, 4, 0, 0, 1},
		{AtLeastOnce, []error{unsent, nil}, 2, 0, 0, 0},
	} {
		p := &Publisher{c: ackClient(t), o: PublisherOptions{Retry: c.retry}, wake: make(chan struct{}, 1), rewind: true}
		for _, err := range c.results {
			p.sent = append(p.sent, &batch{request: request{count: 1}, failures: 1, answered: true, err: err})
		}
		p.ready = []*batch{{}}
		failures := p.startOver()
		if len(p.ready) != c.again+1 || len(p.sent) != 0 || p.rewind || failures != c.failures ||
			p.stats.Acked != c.acked || p.stats.Failed != c.failed || p.stats.Resent != uint64(c.again) {
			t.Errorf("retry %d, %v: %d again, %d failures, stats %+v", c.retry, c.results, len(p.ready)-1, failures, p.stats)
		}
	}
}

// The attempts of a batch are its own: being sent again because of one before it does not use them up.
func TestPublisherAttemptsAreCountedPerBatch(t *testing.T) {
	b := newFakeBroker("s")
	var mu sync.Mutex
	refusals := map[string]int{}
	b.onPublish = func(r received) (string, bool) {
		mu.Lock()
		defer mu.Unlock()
		if m := r.payloads[0]; refusals[m] < 4 && (m == "1" || m == "2" || m == "3") {
			refusals[m]++
			return wire.TextServerOverloaded, true
		}
		return "", true
	}
	h := start(t, b, func(c *Config) { c.MaxAttempts = 5 })
	p := h.NewPublisher("s", PublisherOptions{MaxEvents: 1, Retry: AtLeastOnce})
	for _, m := range numbered(6) {
		if err := p.Publish(patient(t), []byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(patient(t)); err != nil {
		t.Errorf("each batch was refused four times of five: %v", err)
	}
	mu.Lock()
	b.onPublish = func(received) (string, bool) { return wire.TextServerOverloaded, true }
	mu.Unlock()
	q := h.NewPublisher("s", PublisherOptions{Retry: AtLeastOnce})
	if err := q.Publish(patient(t), nil); err != nil {
		t.Fatal(err)
	}
	var failed *PublishError
	if err := q.Close(patient(t)); !errors.As(err, &failed) || failed.Attempts != 5 {
		t.Errorf("got %v after %d attempts", err, failed.Attempts)
	}
}
