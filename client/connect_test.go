package client

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"felix/transport"
	"felix/wire"
)

func TestConnectErrors(t *testing.T) {
	b := newFakeBroker()
	b.token = func(s string) bool { return s == "good" }
	n := &fakeNetwork{window: 1 << 20, serve: b.serve}
	_, err := connectTo(testConfig(), n)
	var auth *AuthError
	if !errors.As(err, &auth) || auth.Forbidden || auth.Message != wire.TextAuthFailed {
		t.Errorf("wrong token: %v", err)
	}
	waitFor(t, func() bool { return n.live() == 0 })
	n.setServe(nil)
	_, err = connectTo(testConfig(), n)
	var lost *ConnectionError
	if !errors.As(err, &lost) || lost.Op != "dial" {
		t.Errorf("nobody there: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	n.setServe(b.serve)
	cfg, _ := testConfig().withDefaults()
	if _, err := connect(ctx, cfg, n.dial); !errors.Is(err, context.Canceled) {
		t.Errorf("context: %v", err)
	}
	b.token = nil
	silent := func(c serverConn) {
		st, err := c.AcceptStream(context.Background())
		if err == nil {
			send(st, &wire.EventStreamHello{})
		}
	}
	n.setServe(silent)
	var protocol *ProtocolError
	if _, err := connectTo(testConfig(), n); !errors.As(err, &protocol) {
		t.Errorf("nonsense: %v", err)
	}
}

func TestConnectToSilentBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNetwork{window: 1 << 20, serve: func(serverConn) {}}
		began := time.Now()
		_, err := connectTo(testConfig(), n)
		var lost *ConnectionError
		if !errors.As(err, &lost) || !lost.Timeout() {
			t.Errorf("got %v", err)
		}
		if d := time.Since(began); d != DefaultRequestTimeout {
			t.Errorf("after %v", d)
		}
	})
}

// A token that was refused is replaced once; the good one is kept for all further streams.
func TestTokenSource(t *testing.T) {
	b := newFakeBroker("s")
	var valid atomic.Value
	valid.Store("t2")
	b.token = func(s string) bool { return s == valid.Load() }
	var asked atomic.Int64
	h := start(t, b, func(c *Config) {
		c.Token = "ignored"
		c.TokenSource = func(context.Context) (string, error) { return fmt.Sprint("t", asked.Add(1)), nil }
	})
	if asked.Load() != 2 {
		t.Errorf("asked %d times", asked.Load())
	}
	for range 3 {
		subscribe(t, h, "s")
	}
	if asked.Load() != 2 {
		t.Errorf("asked %d times for a token that is good", asked.Load())
	}
	valid.Store("t3")
	subscribe(t, h, "s")
	if asked.Load() != 3 {
		t.Errorf("asked %d times", asked.Load())
	}
	valid.Store("none")
	var auth *AuthError
	if _, err := h.Subscribe(patient(t), "s"); !errors.As(err, &auth) {
		t.Errorf("got %v", err)
	}
	if asked.Load() != 4 {
		t.Errorf("asked %d times: a second refusal is final", asked.Load())
	}
	// The second of the first three subscriptions opens the first stream after Connect's.
	if got := strings.Join(b.auths, " "); got != "t1 t2 t2 t2 t2 t3 t3 t4" {
		t.Errorf("tokens used: %s", got)
	}
}

func TestTokenSourceFails(t *testing.T) {
	b := newFakeBroker()
	cfg := testConfig()
	broken := errors.New("no token today")
	cfg.TokenSource = func(context.Context) (string, error) { return "", broken }
	if _, err := connectTo(cfg, &fakeNetwork{window: 1 << 20, serve: b.serve}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestConfigChecks(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"address":    func(c *Config) { c.Addr = "no port" },
		"tenant":     func(c *Config) { c.Tenant = "" },
		"token":      func(c *Config) { c.Token = "" },
		"pool":       func(c *Config) { c.PublishConns = -1 },
		"timeout":    func(c *Config) { c.AckTimeout = -1 },
		"budget":     func(c *Config) { c.InflightBytes = -1 },
		"sharding":   func(c *Config) { c.Sharding = 9 },
		"retry":      func(c *Config) { c.Retry = 9 },
		"frame size": func(c *Config) { c.MaxFrameBytes = 1 << 33 },
	} {
		cfg := testConfig()
		change(&cfg)
		if _, err := Connect(context.Background(), cfg); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	got, err := testConfig().withDefaults()
	if err != nil || got.Namespace != "default" || got.ServerName != "localhost" || got.MaxFrameBytes != 16<<20 ||
		got.InflightBytes != 4<<20 || got.PublishConns != 1 || got.AckTimeout != 30*time.Second {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestBackoff(t *testing.T) {
	b := Backoff{Min: 50 * time.Millisecond, Max: 2 * time.Second}
	for failures, ms := range map[int]int{1: 50, 2: 100, 3: 200, 6: 1600, 7: 2000, 1000: 2000} {
		whole := time.Duration(ms) * time.Millisecond
		low, high := time.Hour, time.Duration(0)
		for range 500 {
			d := b.pause(failures)
			low, high = min(low, d), max(high, d)
		}
		if low < whole/2 || high > whole || high-low < whole/4 {
			t.Errorf("after %d failures: %v to %v, want %v to %v", failures, low, high, whole/2, whole)
		}
	}
}

// Callers that wait for one connection share its attempts instead of queueing up for one each.
func TestRedialIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker("s")
		h := start(t, b, func(c *Config) {
			c.Backoff = Backoff{Min: 100 * time.Millisecond, Max: 100 * time.Millisecond}
			c.ReconnectTimeout = 3 * time.Second
		})
		h.net.setServe(nil)
		h.cut()
		synctest.Wait()
		before := h.Stats().DialFailures
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				err := h.Publish(context.Background(), fmt.Sprint("s", i), nil)
				var lost *ConnectionError
				if !errors.As(err, &lost) || lost.OutcomeUnknown {
					t.Errorf("got %v", err)
				}
			})
		}
		wg.Wait()
		if d := time.Since(began); d > 4*time.Second {
			t.Errorf("took %v", d)
		}
		// Four lanes make an attempt every 50 to 100 ms for 3 s, and share those within half a pause.
		if n := h.Stats().DialFailures - before; n < 10 || n > 150 {
			t.Errorf("%d attempts", n)
		}
	})
}

// F15, F16: however often connections break, there is one per slot afterwards, and no goroutine is left behind.
func TestReconnectLeavesNothingBehind(t *testing.T) {
	b := newFakeBroker("s")
	b.offsets = true
	h := start(t, b, func(c *Config) { c.EventConns = 2 })
	var subs []*Subscription
	for range 6 {
		subs = append(subs, subscribe(t, h, "s"))
	}
	var goroutines int
	for i := range 30 {
		if err := h.Publish(patient(t), "s", fmt.Append(nil, i), WithRetry(AtLeastOnce)); err != nil {
			t.Fatal(err)
		}
		if err := h.Cache("c1").Put(patient(t), "k", nil, 0); err != nil {
			t.Fatal(err)
		}
		for _, s := range subs {
			if got := texts(read(t, s, 1)); got[0] != fmt.Sprint(i) {
				t.Fatalf("got %v, want %d", got, i)
			}
		}
		if n := h.net.live(); n > 4 {
			t.Errorf("round %d: %d connections, 4 slots are in use", i, n)
		}
		if i == 5 {
			goroutines = runtime.NumGoroutine()
		}
		h.cut()
	}
	waitFor(t, func() bool { return runtime.NumGoroutine() <= goroutines })
}

// Connect's connection and stream become those of whoever needs one first.
func TestFirstConnectionIsUsed(t *testing.T) {
	for name, use := range map[string]func(*harness) error{
		"publish":   func(h *harness) error { return h.Publish(context.Background(), "s", nil) },
		"subscribe": func(h *harness) error { _, err := h.Subscribe(context.Background(), "s"); return err },
		"cache":     func(h *harness) error { return h.Cache("c1").Put(context.Background(), "k", nil, 0) },
		"nothing":   func(*harness) error { return nil },
	} {
		b := newFakeBroker("s")
		h := start(t, b)
		if err := use(h); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if h.net.dials != 1 || len(b.auths) != 1 {
			t.Errorf("%s: %d connections, %d streams", name, h.net.dials, len(b.auths))
		}
	}
	b := newFakeBroker("s")
	h := start(t, b)
	h.cut() // before anybody has used it
	if err := h.Publish(patient(t), "s", nil); err != nil {
		t.Error(err)
	}
}

// Close sends what publishers hold, waits for the answers, and ends the streams so that the broker has read everything.
func TestCloseFlushes(t *testing.T) {
	b := newFakeBroker("s", "t")
	b.onPublish = func(received) (string, bool) { time.Sleep(time.Millisecond); return "", true }
	h := start(t, b)
	p := h.NewPublisher("s", PublisherOptions{MaxDelay: -1})
	q := h.NewPublisher("t", PublisherOptions{MaxDelay: -1, Ack: AckNone, MaxEvents: 10})
	for _, m := range numbered(100) {
		if err := p.Publish(patient(t), []byte(m)); err != nil {
			t.Fatal(err)
		}
		if err := q.Publish(patient(t), []byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Publish(patient(t), "s", []byte("unacked"), WithAck(AckNone)); err != nil {
		t.Fatal(err)
	}
	s := subscribe(t, h, "s")
	if err := h.Close(patient(t)); err != nil {
		t.Fatal(err)
	}
	if n := len(payloads(b.requests())); n != 201 {
		t.Errorf("broker has %d messages when Close returns", n)
	}
	b.mu.Lock()
	if b.eofs != 2 {
		t.Errorf("%d publish streams ended in order", b.eofs)
	}
	b.mu.Unlock()
	if _, err := s.Next(patient(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("subscription: %v", err)
	}
}

func TestCloseReportsPublishers(t *testing.T) {
	b := newFakeBroker()
	h := start(t, b)
	p := h.NewPublisher("unknown", PublisherOptions{MaxDelay: -1})
	if err := p.Publish(patient(t), nil); err != nil {
		t.Fatal(err)
	}
	err := h.Close(patient(t))
	var failed *PublishError
	var missing *NotFoundError
	if !errors.As(err, &failed) || failed.Messages != 1 || !errors.As(err, &missing) {
		t.Errorf("got %v", err)
	}
}

// A broker that does not answer cannot hold Close up beyond its context.
func TestCloseGivesUp(t *testing.T) {
	b := newFakeBroker("s")
	gate := make(chan struct{})
	b.onPublish = func(received) (string, bool) { <-gate; return "", true }
	h := start(t, b)
	t.Cleanup(func() { close(gate) })
	p := h.NewPublisher("s", PublisherOptions{})
	if err := p.Publish(patient(t), nil); err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	go func() { result <- h.Publish(context.Background(), "s", nil) }()
	waitFor(t, func() bool { return h.Stats().PublishRequests == 2 })
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := h.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := <-result; !errors.Is(err, ErrClosed) {
		t.Errorf("publish: %v", err)
	}
}

// The reason why a broker closes a connection is what the caller sees.
func TestBrokerShutsDown(t *testing.T) {
	b := newFakeBroker("s")
	b.onPublish = func(received) (string, bool) { return "", false }
	h := start(t, b)
	s := subscribe(t, h, "s", WithoutResume())
	result := make(chan error)
	go func() { result <- h.Publish(context.Background(), "s", nil) }()
	waitFor(t, func() bool { return len(b.requests()) == 1 })
	h.net.mu.Lock()
	for _, c := range h.net.conns {
		_ = c.CloseWithError(wire.ShutdownCode, wire.ShutdownReason)
	}
	h.net.mu.Unlock()
	for name, err := range map[string]error{"publish": <-result, "next": second(s.Next(patient(t)))} {
		var closed *transport.ApplicationError
		if !errors.As(err, &closed) || !closed.Remote || !strings.Contains(err.Error(), wire.ShutdownReason) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second(_ Event, err error) error { return err }

// A connection that takes no new streams and is silent is replaced; one on which others still get answers is kept.
func TestSilentConnectionIsReplaced(t *testing.T) {
	for _, busy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newFakeBroker("s")
			h := start(t, b, func(c *Config) { c.PublishStreams = 2; c.Sharding = RoundRobin; c.ProbeInterval = -1 })
			if err := h.Publish(context.Background(), "s", nil); err != nil {
				t.Fatal(err)
			}
			b.mu.Lock()
			b.deaf = true
			b.mu.Unlock()
			done := make(chan struct{})
			var others sync.WaitGroup
			if busy {
				others.Go(func() {
					for {
						select {
						case <-done:
							return
						case <-time.After(time.Second):
							if err := h.Publish(context.Background(), "s", nil); err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
			result := make(chan error)
			go func() { result <- h.Publish(context.Background(), "t", nil) }()
			time.Sleep(DefaultRequestTimeout + time.Second/2)
			b.mu.Lock()
			b.deaf = false
			b.topics["t"] = &fakeTopic{}
			b.mu.Unlock()
			if err := <-result; err != nil {
				t.Errorf("busy %v: %v", busy, err)
			}
			close(done)
			others.Wait()
			if want := map[bool]int{false: 2, true: 1}[busy]; h.net.dials != want {
				t.Errorf("busy %v: %d connections made, want %d", busy, h.net.dials, want)
			}
		})
	}
}
