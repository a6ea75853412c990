package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"felix/wire"
)

func TestCachePutGet(t *testing.T) {
	b := newFakeBroker()
	var ttls []string
	b.onCache = func(_ stream, m wire.Message) bool {
		if put, ok := m.(*wire.CachePut); ok {
			if put.TTLMillis == nil {
				ttls = append(ttls, "none")
			} else {
				ttls = append(ttls, fmt.Sprint(*put.TTLMillis))
			}
		}
		return false
	}
	h := start(t, b)
	c := h.Cache("c1")
	ctx := patient(t)
	if _, found, err := c.Get(ctx, "k"); err != nil || found {
		t.Errorf("miss: %v, %v", found, err)
	}
	for _, p := range []struct {
		value string
		ttl   time.Duration
	}{{"v", 0}, {"", time.Nanosecond}, {"\x00\xff", 1500 * time.Microsecond}, {"w", time.Hour}} {
		if err := c.Put(ctx, "k", []byte(p.value), p.ttl); err != nil {
			t.Fatal(err)
		}
		got, found, err := c.Get(ctx, "k")
		if err != nil || !found || string(got) != p.value {
			t.Errorf("put %q, got %q, %v, %v", p.value, got, found, err)
		}
	}
	if got := fmt.Sprint(ttls); got != "[none 1 2 3600000]" {
		t.Errorf("ttls in milliseconds: %s", got)
	}
	if err := c.Put(ctx, "k", nil, -1); !errors.Is(err, ErrConfig) {
		t.Errorf("negative ttl: %v", err)
	}
	var missing *UnsupportedError
	if err := c.Delete(ctx, "k"); !errors.As(err, &missing) || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("delete: %v", err)
	}
	if n := h.Stats().CacheRequests; n != 9 {
		t.Errorf("%d requests", n)
	}
	if len(b.auths) != 1 {
		t.Errorf("%d streams for requests one after the other", len(b.auths))
	}
}

func TestCacheRefusals(t *testing.T) {
	h := start(t, newFakeBroker(), func(c *Config) { c.MaxFrameBytes = 1000 })
	var missing *NotFoundError
	if err := h.Cache("none").Put(patient(t), "k", nil, 0); !errors.As(err, &missing) {
		t.Errorf("unknown cache: %v", err)
	}
	if err := h.Cache("c1").Put(patient(t), "k", []byte("v"), 0); err != nil {
		t.Errorf("after a refusal: %v", err)
	}
	var large *TooLargeError
	if err := h.Cache("c1").Put(patient(t), "k", make([]byte, 800), 0); !errors.As(err, &large) || large.Limit != 1000 {
		t.Errorf("large value: %v", err)
	}
	if err := h.Cache("c1").Put(patient(t), "\xff", nil, 0); !errors.Is(err, wire.ErrInvalidUTF8) {
		t.Errorf("key: %v", err)
	}
}

// An answer to another request ends the stream: what comes next on it cannot be trusted.
func TestCacheWrongAnswer(t *testing.T) {
	b := newFakeBroker()
	wrong := true
	b.onCache = func(st stream, m wire.Message) bool {
		if !wrong {
			return false
		}
		wrong = false
		send(st, &wire.CacheOK{RequestID: 77})
		return true
	}
	h := start(t, b)
	var protocol *ProtocolError
	if _, _, err := h.Cache("c1").Get(patient(t), "k"); !errors.As(err, &protocol) {
		t.Errorf("got %v", err)
	}
	if _, _, err := h.Cache("c1").Get(patient(t), "k"); err != nil {
		t.Errorf("next: %v", err)
	}
	if len(b.auths) != 2 {
		t.Errorf("%d streams", len(b.auths))
	}
}

// A lost answer is asked for again by Get; Put repeats only what it may.
func TestCacheLostAnswer(t *testing.T) {
	for _, retry := range []Retry{AtMostOnce, AtLeastOnce} {
		b := newFakeBroker()
		lose := make(chan struct{}, 1)
		seen := 0
		b.onCache = func(stream, wire.Message) bool {
			seen++
			select {
			case <-lose:
				return true // and no answer
			default:
				return false
			}
		}
		h := start(t, b, func(c *Config) { c.Retry = retry })
		request := func(f func() error) error {
			before := seen
			lose <- struct{}{}
			result := make(chan error)
			go func() { result <- f() }()
			waitFor(t, func() bool { b.mu.Lock(); defer b.mu.Unlock(); return seen > before })
			h.cut()
			return <-result
		}
		if err := request(func() error { _, _, err := h.Cache("c1").Get(patient(t), "k"); return err }); err != nil {
			t.Errorf("retry %d: get: %v", retry, err)
		}
		err := request(func() error { return h.Cache("c1").Put(patient(t), "k", nil, 0) })
		var lost *ConnectionError
		if retry == AtLeastOnce && err != nil || retry == AtMostOnce && (!errors.As(err, &lost) || !lost.OutcomeUnknown) {
			t.Errorf("retry %d: put: %v", retry, err)
		}
		if err := h.Cache("c1").Put(patient(t), "k", nil, 0); err != nil {
			t.Errorf("retry %d: next put: %v", retry, err)
		}
	}
}

func TestCacheContext(t *testing.T) {
	b := newFakeBroker()
	silent := true
	b.onCache = func(stream, wire.Message) bool { return silent }
	h := start(t, b, func(c *Config) { c.CacheStreams = 1; c.RequestTimeout = 10 * time.Second })
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	results := make(chan error)
	for range 2 { // one is sent, the other one waits for the stream
		go func() { _, _, err := h.Cache("c1").Get(ctx, "k"); results <- err }()
	}
	for range 2 {
		if err := <-results; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	}
	b.mu.Lock()
	silent = false
	b.mu.Unlock()
	if err := h.Cache("c1").Put(patient(t), "k", nil, 0); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestCacheConcurrency(t *testing.T) {
	b := newFakeBroker()
	h := start(t, b, func(c *Config) { c.CacheConns, c.CacheStreams = 2, 3 })
	var wg sync.WaitGroup
	for g := range 50 {
		wg.Go(func() {
			key := fmt.Sprint("k", g)
			for i := range 20 {
				if err := h.Cache("c1").Put(patient(t), key, fmt.Append(nil, i), 0); err != nil {
					t.Error(err)
				}
				if v, ok, err := h.Cache("c1").Get(patient(t), key); err != nil || !ok || string(v) != fmt.Sprint(i) {
					t.Errorf("%q %v %v, want %d", v, ok, err, i)
				}
			}
		})
	}
	wg.Wait()
	if n := len(b.auths); n > 6 {
		t.Errorf("%d streams", n)
	}
	if n := h.net.live(); n > 2 {
		t.Errorf("%d connections", n)
	}
}
