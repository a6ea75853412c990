package session

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"felix/broker"
	"felix/wire"
)

// closedByDrain checks how the connection ended.
func (c *testClient) closedByDrain(t testing.TB) {
	t.Helper()
	<-c.served
	if c.serveErr != nil {
		t.Errorf("Serve returned %v", c.serveErr)
	}
	var app *memAppError
	if !errors.As(context.Cause(c.link.ctx), &app) || app.code != 0 || app.reason != "broker shutting down" {
		t.Errorf("connection ended with %v", context.Cause(c.link.ctx))
	}
}

// Connections with nothing to do close at once; those with open streams when the
// streams have been silent for a while. None is taken any more.
func TestDrainOfIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		empty, control, uni := e.dial(), e.dial(), e.dial()
		control.control().alive()
		u := uni.link.openUni()
		synctest.Wait()
		start := time.Now()
		var drained time.Duration
		var draining sync.WaitGroup
		draining.Go(func() {
			if err := e.server.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			drained = time.Since(start)
		})
		synctest.Wait()
		empty.closedByDrain(t)
		late := e.dial()
		<-late.served
		if !errors.Is(late.serveErr, ErrDraining) || !errors.Is(late.serveErr, net.ErrClosed) {
			t.Errorf("late connection: %v", late.serveErr)
		}
		ignored := control.raw() // a new stream on a draining connection
		ignored.send(&wire.Auth{TenantID: testTenant, Token: e.token()})
		draining.Wait()
		control.closedByDrain(t)
		uni.closedByDrain(t)
		if want := 250*time.Millisecond + 100*time.Millisecond; drained != want {
			t.Errorf("took %v, want %v", drained, want)
		}
		if code, ok := u.stopped(); !ok || Code(code) != CodeShuttingDown {
			t.Errorf("uni stream: stopped %v with %v", ok, Code(code))
		}
		if err := e.server.Drain(t.Context()); err != nil {
			t.Errorf("second drain: %v", err)
		}
		e.close()
	})
}

// During load every acked publish has its ack before the close, and has reached
// the live subscriber; the busy streams are cut at the end of the grace.
func TestDrainUnderLoad(t *testing.T) {
	for _, commit := range []bool{false, true} {
		t.Run("commit="+strconv.FormatBool(commit), func(t *testing.T) {
			// The publishers are held to the subscriber's pace, so that little is on
			// its way when the connections close.
			e := newEnv(t, func(cfg *Config, o *broker.Options) {
				cfg.AckOnCommit, cfg.DrainIdle = commit, patience
				cfg.DrainGrace, cfg.CloseLinger = time.Second, time.Second
				o.SubPolicy, o.SubQueueBytes, o.CommitWait = broker.PolicyBlock, 64<<10, patience
			})
			sub := e.dial(func(l *memLink) { l.streamWindow = 32 << 10 })
			ev, _ := sub.subscribe(wire.Subscribe{})
			got := make(map[string]bool)
			var reading sync.WaitGroup
			reading.Go(func() {
				_ = ev.s.SetReadDeadline(time.Time{})
				for {
					f, err := ev.frames.Next()
					if err != nil {
						if err == io.EOF {
							t.Error("the event stream ended with FIN, which a client takes for the end of the stream")
						}
						return
					}
					b, err := wire.ParseEventBatch(f.Flags, f.Payload())
					if err != nil {
						t.Error(err)
						return
					}
					for p := range b.Items.All() {
						got[string(p)] = true
					}
				}
			})

			const publishers = 4
			var sent, acked [publishers]uint64
			var publishing sync.WaitGroup
			started := make(chan struct{}, publishers)
			for i := range publishers {
				c := e.dial()
				s := c.control()
				publishing.Go(func() { // writes as fast as it can
					for n := uint64(0); ; n++ {
						if _, err := s.s.Write(publishFrame(t, &n, strconv.Itoa(i)+"/"+strconv.FormatUint(n, 10))); err != nil {
							sent[i] = n
							return
						}
						if n == 100 {
							started <- struct{}{}
						}
					}
				})
				publishing.Go(func() { // reads acks
					_ = s.s.SetReadDeadline(time.Time{})
					for {
						f, err := s.frames.Next()
						if err != nil {
							if err != io.EOF {
								t.Errorf("publisher %d: acks ended with %v", i, err)
							}
							break
						}
						a, err := wire.ParsePublishAck(f.Payload())
						if err != nil || a.RequestID != acked[i] {
							t.Errorf("publisher %d: ack %+v, error %v, want %d", i, a, err, acked[i])
							return
						}
						if a.Failed && a.Message != "publish admission closed" {
							t.Errorf("publisher %d: %s", i, a.Message)
						}
						if !a.Failed {
							acked[i]++
						} else {
							break
						}
					}
					<-c.link.ctx.Done()
					c.closedByDrain(t)
				})
			}
			for range publishers {
				<-started
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err := e.server.Drain(ctx)
			var cut *DrainError
			if !errors.As(err, &cut) || cut.Streams != publishers || cut.Subscriptions != 0 {
				t.Errorf("Drain returned %v", err)
			}
			publishing.Wait()
			reading.Wait()
			sub.closedByDrain(t)
			for i := range publishers {
				if acked[i] == 0 {
					t.Errorf("publisher %d: no acks", i)
				}
				for n := range acked[i] {
					if key := strconv.Itoa(i) + "/" + strconv.FormatUint(n, 10); !got[key] {
						t.Fatalf("%s of %d was acked and not delivered", key, acked[i])
					}
				}
			}
			e.close()
		})
	}
}

// A slow subscriber gets what is queued for it before its connection closes, if
// it takes what is on its way within the linger time.
func TestDrainWritesSubscriptionQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, func(cfg *Config, _ *broker.Options) { cfg.CloseLinger = time.Second })
		sub, pub := e.dial(), e.dial()
		ev, _ := sub.subscribe(wire.Subscribe{})
		s := pub.control()
		payload := strings.Repeat("x", 100_000)
		for i := range uint64(20) {
			s.publish(&i, payload)
			s.acked(i, "")
		}
		var draining sync.WaitGroup
		draining.Go(func() {
			if err := e.server.Drain(t.Context()); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Second)
		for range 20 {
			time.Sleep(100 * time.Millisecond)
			ev.take(1)
		}
		draining.Wait()
		sub.closedByDrain(t)
		pub.closedByDrain(t)
		e.close()
	})
}

// A subscriber that reads nothing cannot hold up a drain beyond the grace, nor
// can a publisher that it blocks.
func TestDrainDoesNotWaitForTheStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, func(cfg *Config, o *broker.Options) {
			o.SubPolicy, o.SubQueueBytes, o.WorkerQueueDepth = broker.PolicyBlock, 100_000, 1
			cfg.DrainGrace = 4 * time.Second
		})
		sub, pub := e.dial(), e.dial()
		sub.subscribe(wire.Subscribe{})
		s := pub.control()
		payload := strings.Repeat("x", 100_000)
		var writing sync.WaitGroup
		writing.Go(func() {
			for range 100 {
				if _, err := s.s.Write(publishFrame(t, nil, payload)); err != nil {
					return
				}
			}
			t.Error("the publisher was never blocked")
		})
		synctest.Wait()
		start := time.Now()
		err := e.server.Drain(t.Context())
		var cut *DrainError
		if !errors.As(err, &cut) || cut.Streams != 1 || cut.Subscriptions != 1 {
			t.Errorf("Drain returned %v", err)
		}
		if d := time.Since(start); d != 4100*time.Millisecond {
			t.Errorf("took %v", d)
		}
		writing.Wait()
		pub.closedByDrain(t)
		sub.closedByDrain(t)
		e.close()
	})
}

// A subscriber that takes its events slowly gets all of them, long after the
// grace. One that takes nothing is given up meanwhile, also on the same
// connection.
func TestDrainWaitsForTheSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, func(cfg *Config, o *broker.Options) {
			cfg.DrainGrace, cfg.CloseLinger = time.Second, 5*time.Second
			o.SubPolicy, o.SubQueueBytes = broker.PolicyBlock, 300_000
		})
		sub, pub := e.dial(), e.dial()
		slow, _ := sub.subscribe(wire.Subscribe{})
		sub.subscribe(wire.Subscribe{}) // never read
		s := pub.control()
		payload := strings.Repeat("x", 100_000)
		const n = 20
		for i := range uint64(n) {
			s.publish(&i, payload)
			s.acked(i, "")
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		var draining sync.WaitGroup
		draining.Go(func() {
			err := e.server.Drain(ctx)
			var cut *DrainError
			if !errors.As(err, &cut) || cut.Streams != 0 || cut.Subscriptions != 1 {
				t.Errorf("Drain returned %v", err)
			}
		})
		for range n {
			time.Sleep(time.Second)
			slow.take(1)
		}
		draining.Wait()
		if d := time.Since(start); d < n*time.Second || d > (n+5)*time.Second {
			t.Errorf("took %v", d)
		}
		sub.closedByDrain(t)
		pub.closedByDrain(t)
		e.close()
	})
}

// A subscriber that is still taking its events when the time of the drain is
// nearly over is told why its connection ends.
func TestDrainEndsBeforeItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		sub, pub := e.dial(), e.dial()
		ev, _ := sub.subscribe(wire.Subscribe{})
		s := pub.control()
		for i := range uint64(20) {
			s.publish(&i, strings.Repeat("x", 100_000))
			s.acked(i, "")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var draining sync.WaitGroup
		draining.Go(func() {
			err := e.server.Drain(ctx)
			var cut *DrainError
			if !errors.As(err, &cut) || cut.Streams != 0 || cut.Subscriptions != 1 || ctx.Err() != nil {
				t.Errorf("Drain returned %v", err)
			}
		})
		for range 8 {
			time.Sleep(time.Second)
			ev.take(1)
		}
		draining.Wait()
		sub.closedByDrain(t)
		pub.closedByDrain(t)
		e.close()
	})
}

// The end of its context cuts a drain short: every connection is closed.
func TestDrainContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		c := e.dial()
		s := c.control()
		stop := make(chan struct{})
		var writing sync.WaitGroup
		writing.Go(func() { // never idle
			for {
				select {
				case <-stop:
					return
				case <-time.After(50 * time.Millisecond):
					if _, err := s.s.Write(publishFrame(t, nil, "x")); err != nil {
						return
					}
				}
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		first := make(chan error)
		go func() { first <- e.server.Drain(ctx) }()
		time.Sleep(time.Second)
		short, stopShort := context.WithTimeout(t.Context(), time.Second)
		if err := e.server.Drain(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("second drain: %v", err)
		}
		stopShort()
		if c.link.ctx.Err() != nil {
			t.Error("a busy connection was closed within the grace")
		}
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("Drain returned %v", err)
		}
		c.closedByDrain(t)
		close(stop)
		writing.Wait()
		e.close()
	})
}

// The grace follows the time that Drain is given.
func TestDrainGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		for _, tc := range []struct{ limit, want time.Duration }{
			{0, 5 * time.Second}, {25 * time.Second, 5 * time.Second}, {time.Second, time.Second}, {10 * time.Second, 2 * time.Second},
		} {
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if tc.limit > 0 {
				ctx, cancel = context.WithTimeout(ctx, tc.limit)
			}
			if got := e.server.grace(ctx); got != tc.want {
				t.Errorf("limit %v: grace %v, want %v", tc.limit, got, tc.want)
			}
			cancel()
		}
		e.close()
	})
}

// A request that is slow to arrive is still taken while it makes progress.
func TestDrainTakesASlowRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		c := e.dial()
		s := c.control()
		frame := publishFrame(t, id(1), strings.Repeat("x", 1000))
		s.bytes(frame[:10])
		var draining sync.WaitGroup
		draining.Go(func() {
			if err := e.server.Drain(t.Context()); err != nil {
				t.Error(err)
			}
		})
		for i := 10; i < len(frame); i += 100 {
			time.Sleep(200 * time.Millisecond)
			s.bytes(frame[i:min(i+100, len(frame))])
		}
		s.acked(1, "")
		s.ended()
		draining.Wait()
		c.closedByDrain(t)
		e.close()
	})
}

// A subscribe that waits for stream credit is told that the broker shuts down.
func TestDrainRefusesSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		c := e.dial(func(l *memLink) { l.uniCredit = 0 })
		s := c.control()
		s.send(&wire.Subscribe{TenantID: testTenant, Namespace: testNS, Stream: topic})
		synctest.Wait()
		var draining sync.WaitGroup
		draining.Go(func() {
			if err := e.server.Drain(t.Context()); err != nil {
				t.Error(err)
			}
		})
		expectError(s, "broker shutting down")
		s.ended()
		draining.Wait()
		c.closedByDrain(t)
		e.close()
	})
}
