package client

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestPublishContext(t *testing.T) {
	b := newFakeBroker("s")
	b.onPublish = func(received) (string, bool) { return "", false }
	h := start(t, b, func(c *Config) {
		c.PublishStreams, c.InflightRequests = 1, 1
		c.AckTimeout = time.Second
	})
	ctx, cancel := context.WithCancel(context.Background())
	results := make(chan error, 2)
	go func() { results <- h.Publish(ctx, "s", []byte("unanswered")) }()
	waitFor(t, func() bool { return len(b.requests()) == 1 })
	go func() { results <- h.Publish(ctx, "s", []byte("waits for room")) }()
	lane := h.routes.lane("s")
	waitFor(t, func() bool {
		lane.room.mu.Lock()
		defer lane.room.mu.Unlock()
		return len(lane.room.queue) == 1
	})
	cancel()
	for range 2 {
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	if err := h.Publish(ctx, "s", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("done before the call: %v", err)
	}
	if n := len(b.requests()); n != 1 {
		t.Errorf("broker saw %d publishes", n)
	}
}

// A publish whose context ends while the stream is blocked by flow control goes away; the stream stays in order.
func TestPublishContextWhileBlocked(t *testing.T) {
	b := newFakeBroker("s")
	gate := make(chan struct{})
	b.onPublish = func(r received) (string, bool) {
		if r.payloads[0] == "first" {
			<-gate
		}
		return "", true
	}
	h := start(t, b, func(c *Config) { c.PublishStreams = 1 })
	first := make(chan error)
	go func() { first <- h.Publish(patient(t), "s", []byte("first")) }()
	waitFor(t, func() bool { return h.Stats().PublishRequests == 1 })
	big := make([]byte, 2<<20) // twice the window
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := h.Publish(ctx, "s", big); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("blocked: %v", err)
	}
	if err := h.Publish(ctx, "s", []byte("never")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("behind it: %v", err)
	}
	ctx2, cancel2 := context.WithCancel(context.Background())
	queued := make(chan error)
	go func() { queued <- h.Publish(ctx2, "s", []byte("withdrawn")) }()
	waitFor(t, func() bool { return h.Stats().PublishRequests == 3 })
	cancel2()
	if err := <-queued; !errors.Is(err, context.Canceled) {
		t.Errorf("queued: %v", err)
	}
	close(gate)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if err := h.Publish(patient(t), "s", []byte("last")); err != nil {
		t.Error(err)
	}
	var seen []int
	for _, r := range b.requests() {
		seen = append(seen, len(r.payloads[0]))
	}
	if !slices.Equal(seen, []int{5, len(big), 4}) {
		t.Errorf("broker saw payloads of %v bytes", seen)
	}
}

func TestAckTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker("s")
		var answers atomic.Bool
		b.onPublish = func(received) (string, bool) { return "", answers.Load() }
		h := start(t, b, func(c *Config) { c.AckTimeout = 8 * time.Second })
		began := time.Now()
		err := h.Publish(context.Background(), "s", []byte("p"))
		var lost *ConnectionError
		if !errors.Is(err, ErrAckTimeout) || !errors.As(err, &lost) || !lost.OutcomeUnknown {
			t.Errorf("got %v", err)
		}
		if d := time.Since(began); d < 8*time.Second || d > 10*time.Second {
			t.Errorf("after %v", d)
		}
		answers.Store(true)
		for range 5 {
			if err := h.Publish(context.Background(), "s", []byte("p")); err != nil {
				t.Errorf("afterwards: %v", err)
			}
			time.Sleep(5 * time.Second)
		}
		if n := h.Stats().Dials; n != 1 {
			t.Errorf("%d connections: a silent stream must not take the connection along", n)
		}
	})
}

// A broker that answers each request just in time is never taken for a silent one.
func TestAckTimeoutIsPerRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker("s")
		b.onPublish = func(received) (string, bool) {
			time.Sleep(7 * time.Second)
			return "", true
		}
		h := start(t, b, func(c *Config) { c.AckTimeout = 8 * time.Second; c.PublishStreams = 1 })
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				if err := h.Publish(context.Background(), "s", []byte("p")); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}

func TestPublishAfterClose(t *testing.T) {
	h := start(t, newFakeBroker("s"))
	if err := h.Close(patient(t)); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"publish":   h.Publish(patient(t), "s", nil),
		"publisher": h.NewPublisher("s", PublisherOptions{}).Publish(patient(t), nil),
		"put":       h.Cache("c1").Put(patient(t), "k", nil, 0),
	} {
		if !errors.Is(err, ErrClosed) || !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := h.Subscribe(patient(t), "s"); !errors.Is(err, ErrClosed) {
		t.Errorf("subscribe: %v", err)
	}
	if err := h.Close(patient(t)); err != nil {
		t.Errorf("second close: %v", err)
	}
}
