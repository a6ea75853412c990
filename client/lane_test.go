package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// Each Felix stream stays on one publish stream, whatever the sharding.
func TestRoutes(t *testing.T) {
	for _, sharding := range []Sharding{HashStream, RoundRobin} {
		cfg := Config{Tenant: "t1", Namespace: "n", Sharding: sharding}
		var r routes
		lanes := make([]*lane, 8)
		for i := range lanes {
			lanes[i] = new(lane)
		}
		r.init(cfg, lanes)
		use := map[*lane]int{}
		first := map[string]*lane{}
		for i := range 800 {
			name := fmt.Sprint("stream-", i)
			first[name] = r.lane(name)
			use[first[name]]++
			if sharding == RoundRobin && first[name] != lanes[i%8] {
				t.Fatalf("stream %d is not next in turn", i)
			}
		}
		for name, l := range first {
			if r.lane(name) != l {
				t.Fatalf("%s has moved", name)
			}
		}
		for _, l := range lanes {
			if use[l] < 60 || use[l] > 140 {
				t.Errorf("sharding %d: %d of 800 streams on one of 8 lanes", sharding, use[l])
			}
		}
	}
	var r routes
	r.init(Config{Sharding: RoundRobin}, []*lane{new(lane), new(lane)})
	for i := range maxRoutes + 10 {
		r.lane(fmt.Sprint(i))
	}
	if n := len(r.byName); n != maxRoutes {
		t.Errorf("%d streams remembered", n)
	}
	if a, b := r.lane("beyond"), r.lane("beyond"); a != b {
		t.Error("a stream that is not remembered moves")
	}
}

func TestLanesUseAllConnections(t *testing.T) {
	b := newFakeBroker()
	for i := range 40 {
		b.topics[fmt.Sprint(i)] = &fakeTopic{}
	}
	h := start(t, b, func(c *Config) { c.PublishConns, c.PublishStreams, c.Sharding = 3, 2, RoundRobin })
	for i := range 40 {
		if err := h.Publish(patient(t), fmt.Sprint(i), nil); err != nil {
			t.Fatal(err)
		}
	}
	if h.net.live() != 3 || len(b.auths) != 6 {
		t.Errorf("%d connections, %d streams", h.net.live(), len(b.auths))
	}
}

func TestRoom(t *testing.T) {
	r := room{maxBytes: 100, maxRequests: 3}
	ctx := context.Background()
	take := func(n int64) {
		t.Helper()
		if err := r.acquire(ctx, n); err != nil {
			t.Fatal(err)
		}
	}
	take(1000) // larger than the room, but alone
	full, cancel := context.WithCancel(ctx)
	cancel()
	if err := r.acquire(full, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	r.release(1000)
	take(40)
	take(40)
	if err := r.acquire(full, 40); !errors.Is(err, context.Canceled) {
		t.Errorf("bytes: got %v", err)
	}
	take(20)
	if err := r.acquire(full, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("requests: got %v", err)
	}
	for _, n := range []int64{40, 40, 20} {
		r.release(n)
	}
	if !r.empty() || r.bytes != 0 {
		t.Errorf("left %d requests, %d bytes", r.requests, r.bytes)
	}
}

// Waiters are served in order: a large request is not starved by small ones behind it.
func TestRoomOrder(t *testing.T) {
	r := room{maxBytes: 100, maxRequests: 100}
	if err := r.acquire(context.Background(), 90); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var order []int64
	var wg sync.WaitGroup
	for i, n := range []int64{80, 5, 6} {
		wg.Go(func() {
			if err := r.acquire(context.Background(), n); err != nil {
				t.Error(err)
			}
			mu.Lock()
			order = append(order, n)
			mu.Unlock()
		})
		waitFor(t, func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.queue) == i+1 })
	}
	r.release(90)
	wg.Wait()
	if r.bytes != 91 {
		t.Errorf("%d bytes in use", r.bytes)
	}
	if !slices.Contains(order, 80) {
		t.Errorf("order %v", order)
	}
}

func TestUnanswered(t *testing.T) {
	var u unanswered
	live := map[uint64]*request{}
	id := uint64(0)
	for range 20000 {
		if rand.N(5) < 3 || len(live) == 0 {
			id++
			r := &request{id: id}
			u.push(r)
			live[id] = r
			continue
		}
		pick := u.oldest().id
		if rand.N(2) == 0 {
			for k := range live {
				pick = k
				break
			}
		}
		if got := u.take(pick); got != live[pick] {
			t.Fatalf("take(%d) is %v", pick, got)
		}
		delete(live, pick)
		if u.take(pick) != nil {
			t.Fatalf("%d taken twice", pick)
		}
	}
	if u.take(0) != nil || u.take(id+1) != nil {
		t.Error("took what was never there")
	}
	rest := u.all()
	if len(rest) != len(live) || !slices.IsSortedFunc(rest, func(a, b *request) int { return int(a.id) - int(b.id) }) {
		t.Errorf("%d left of %d", len(rest), len(live))
	}
}
