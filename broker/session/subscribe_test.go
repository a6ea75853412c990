package session

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"felix/broker"
	"felix/wire"
)

var (
	earliest = &wire.Start{Kind: wire.StartEarliest}
	latest   = &wire.Start{Kind: wire.StartLatest}
)

func from(n uint64) *wire.Start { return &wire.Start{Kind: wire.StartOffset, Offset: n} }

// fill publishes n events, the i-th with payload i, and waits until they are in
// the ring.
func fill(t testing.TB, e *env, c *testClient, n int) {
	t.Helper()
	s := c.control()
	for i := range n {
		s.publish(id(uint64(i)), strconv.Itoa(i))
		s.acked(uint64(i), "")
	}
	eventually(t, "events in the ring", func() bool { return e.stream(t).Info().NextSeq == uint64(n) })
}

func (e *env) stream(t testing.TB) *broker.Stream {
	t.Helper()
	s, err := e.broker.Stream(broker.Key{Tenant: testTenant, Namespace: testNS, Name: topic})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSubscriptionIDs(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		_, first := c.subscribe(wire.Subscribe{})
		_, second := c.subscribe(wire.Subscribe{})
		if first != 1 || second != 2 {
			t.Errorf("ids %d and %d", first, second)
		}
		_, own := c.subscribe(wire.Subscribe{SubscriptionID: id(1 << 60)})
		if own != 1<<60 {
			t.Errorf("own id came back as %d", own)
		}
	})
}

// The answers to a subscribe that opens nothing, after which the control stream
// ends and no event stream appears.
func TestSubscribeErrors(t *testing.T) {
	sub := func(tenant, stream string) wire.Message {
		return &wire.Subscribe{TenantID: tenant, Namespace: testNS, Stream: stream}
	}
	for _, tc := range []struct {
		name, perm string
		send, want wire.Message
		code       Code
	}{
		{"unknown stream", "", sub("t1", "missing"),
			&wire.Error{Message: "stream not found: tenant=t1 namespace=default stream=missing"}, CodeRefused},
		{"wrong tenant", "", sub("t2", topic), &wire.Error{Message: "tenant mismatch"}, CodeForbidden},
		{"no permission", onlyPublish, sub("t1", topic), &wire.Error{Message: "forbidden"}, CodeForbidden},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run(t, func(e *env, c *testClient) {
				other := c.control()
				var perms []string
				if tc.perm != "" {
					perms = append(perms, tc.perm)
				}
				s := c.control(perms...)
				s.send(tc.send)
				expect(s, tc.want)
				s.ended()
				s.stopped(tc.code)
				other.alive()
				if got := e.server.Stats().Connections[0].Subscriptions; len(got) != 0 {
					t.Errorf("subscriptions left: %+v", got)
				}
			})
		})
	}
	t.Run("too many", func(t *testing.T) {
		run(t, func(e *env, c *testClient) {
			c.subscribe(wire.Subscribe{})
			ev, _ := c.subscribe(wire.Subscribe{})
			s := c.control()
			s.send(sub("t1", topic))
			expectError(s, "max subscriptions per connection exceeded")
			s.ended()
			// Another connection has its own share, and so has this one once a
			// subscription has gone.
			other := e.dial()
			other.subscribe(wire.Subscribe{})
			other.close()
			ev.s.CancelRead(0)
			eventually(t, "subscription gone", func() bool { return len(e.server.Stats().Connections[0].Subscriptions) == 1 })
			c.subscribe(wire.Subscribe{})
		}, func(_ *Config, o *broker.Options) { o.MaxSubscriptionsPerConn = 2 })
	})
	t.Run("no stream credit", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t)
			c := e.dial(func(l *memLink) { l.uniCredit = 0 })
			s := c.control()
			s.publish(id(1), "x")
			s.send(sub("t1", topic))
			s.acked(1, "") // is not held up
			expectError(s, "cannot open event stream: client allowed no further stream within 10s")
			s.ended()
			if n := e.stream(t).Info().Subscriptions; n != 0 {
				t.Errorf("%d subscriptions left at the broker", n)
			}
			c.close()
			e.close()
		})
	})
}

// Frames on a control stream behind a subscribe are not looked at.
func TestSubscribeIsTheLastRequest(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		s := c.control()
		s.send(&wire.Subscribe{TenantID: testTenant, Namespace: testNS, Stream: topic})
		if _, ok := s.message().(*wire.Subscribed); !ok {
			t.Fatal("not subscribed")
		}
		s.ended()
		s.publish(id(1), "x")
		s.stopped(CodeNone)
		c.events()
		if n := e.stream(t).Info().NextSeq; n != 0 {
			t.Errorf("%d events published", n)
		}
	}, func(cfg *Config, _ *broker.Options) { cfg.LingerTimeout = 50 * time.Millisecond })
}

// A client that finishes its side after the last request is not told to stop.
func TestLastRequestThenFIN(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		for _, m := range []wire.Message{
			&wire.Subscribe{TenantID: testTenant, Namespace: testNS, Stream: topic}, put("k", "v", nil, nil), get("k", nil),
		} {
			s := c.control()
			s.send(m)
			s.message()
			s.ended()
			time.Sleep(5 * time.Millisecond) // let the broker do what it should not
			s.fin()
			eventually(t, "stream forgotten", func() bool { return e.server.Stats().Connections[0].ControlStreams == 0 })
			if code, ok := s.s.stopped(); ok {
				t.Errorf("after %s: stopped with %v", m.Type(), Code(code))
			}
		}
	})
}

// Each start position gives the events from there on, those replayed in the
// layout with the subscription id, with offsets if the client reads them.
func TestStartPositions(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		fill(t, e, c, 30) // the ring holds 10..29
		for _, tc := range []struct {
			name  string
			start *wire.Start
			first int // of the replay; 30: none
		}{
			{"absent", nil, 30},
			{"latest", latest, 30},
			{"earliest", earliest, 10},
			{"oldest", from(10), 10},
			{"middle", from(17), 17},
			{"newest", from(29), 29},
			{"tail", from(30), 30},
		} {
			t.Run(tc.name, func(t *testing.T) {
				ev, sub := c.subscribe(wire.Subscribe{Start: tc.start})
				ev.t = t
				for n := tc.first; n < 30; {
					f := ev.frame()
					if f.Flags != 0x0022 {
						t.Fatalf("replay frame with flags %#x", f.Flags)
					}
					b, err := wire.ParseEventBatch(f.Flags, f.Payload())
					if err != nil || b.SubscriptionID != sub || b.BaseOffset != uint64(n) {
						t.Fatalf("replay frame %+v, error %v, want subscription %d from %d", b, err, sub, n)
					}
					for p := range b.Items.All() {
						if string(p) != strconv.Itoa(n) {
							t.Fatalf("event %d is %q", n, p)
						}
						n++
					}
				}
			})
		}
		for _, tc := range []struct {
			name  string
			start *wire.Start
			want  wire.SubscribeCursorError
		}{
			{"too old", from(9), wire.SubscribeCursorError{Reason: wire.CursorTooOld, Requested: 9, Available: 10}},
			{"in the future", from(31), wire.SubscribeCursorError{Reason: wire.CursorInFuture, Requested: 31, Available: 30}},
		} {
			t.Run(tc.name, func(t *testing.T) {
				s := c.control()
				s.t = t
				s.send(&wire.Subscribe{TenantID: testTenant, Namespace: testNS, Stream: topic, Start: tc.start})
				expect(s, &tc.want)
				s.ended()
				s.stopped(CodeRefused)
			})
		}
	}, func(_ *Config, o *broker.Options) { o.RingEntries = 20 })
}

// An empty stream has nothing to replay; earliest is never an error.
func TestStartOnAnEmptyStream(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		a, _ := c.subscribe(wire.Subscribe{Start: earliest})
		b, _ := c.subscribe(wire.Subscribe{Start: from(0)})
		c.control().alive()
		a.takePayloads("alive")
		b.takePayloads("alive")
	})
}

// Which events carry offsets depends on the setting and on what the client
// offered.
func TestOffsets(t *testing.T) {
	for _, tc := range []struct {
		mode         Offsets
		client       *uint16
		replay, live wire.Flags
	}{
		{OffsetsReplay, flags(63), 0x0022, 0x0004},
		{OffsetsAll, flags(63), 0x0022, 0x0024},
		{OffsetsNone, flags(63), 0x0002, 0x0004},
		{OffsetsReplay, flags(31), 0x0002, 0x0004},
		{OffsetsAll, flags(31), 0x0002, 0x0004},
		{OffsetsAll, nil, 0x0002, 0x0004},
	} {
		name := "silent client"
		if tc.client != nil {
			name = fmt.Sprintf("client flags %d", *tc.client)
		}
		t.Run(tc.mode.String()+", "+name, func(t *testing.T) {
			run(t, func(e *env, c *testClient) {
				fill(t, e, c, 3)
				s := c.raw()
				s.send(&wire.Auth{TenantID: testTenant, Token: e.token(), ClientFlags: tc.client})
				s.message()
				s.send(&wire.Subscribe{TenantID: testTenant, Namespace: testNS, Stream: topic, Start: from(1)})
				if _, ok := s.message().(*wire.Subscribed); !ok {
					t.Fatal("not subscribed")
				}
				ev, _ := c.events()
				f := ev.frame()
				if f.Flags != tc.replay {
					t.Errorf("replay with flags %#x, want %#x", f.Flags, tc.replay)
				}
				b, err := wire.ParseEventBatch(f.Flags, f.Payload())
				if err != nil || b.Items.Len() != 2 || b.HasBase && b.BaseOffset != 1 {
					t.Errorf("replay %+v, error %v", b, err)
				}
				p := c.control()
				p.publish(id(1), "three", "four")
				f = ev.frame()
				if f.Flags != tc.live {
					t.Errorf("live with flags %#x, want %#x", f.Flags, tc.live)
				}
				b, err = wire.ParseEventBatch(f.Flags, f.Payload())
				if err != nil || b.Items.Len() != 2 || b.HasBase && b.BaseOffset != 3 {
					t.Errorf("live %+v, error %v", b, err)
				}
			}, func(cfg *Config, _ *broker.Options) { cfg.Offsets = tc.mode })
		})
	}
}

// A replay may begin inside a publish batch.
func TestReplayFromTheMiddleOfABatch(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		p := c.control()
		p.publish(id(1), "0", "1", strings.Repeat("2", 40_000), "3")
		p.publish(id(2), "4")
		p.acked(1, "")
		p.acked(2, "")
		eventually(t, "published", func() bool { return e.stream(t).Info().NextSeq == 5 })
		for first := range 5 {
			ev, _ := c.subscribe(wire.Subscribe{Start: from(uint64(first))})
			for i, got := range ev.take(5 - first) {
				want := strconv.Itoa(first + i)
				if !strings.HasPrefix(got.payload, want) || got.offset != uint64(first+i) || !got.has {
					t.Fatalf("from %d: event %d is %.10q at %d", first, i, got.payload, got.offset)
				}
			}
		}
	})
}

// `subscribed` comes before the replay, so a replay that is much larger than the
// client's windows does not stop it, and live events follow without a gap.
func TestReplayLargerThanTheWindow(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		p := c.control()
		big := strings.Repeat("x", 50_000)
		for i := range uint64(100) {
			p.publish(&i, strconv.FormatUint(i, 10)+big)
			p.acked(i, "")
		}
		eventually(t, "published", func() bool { return e.stream(t).Info().NextSeq == 100 })
		ev, _ := c.subscribe(wire.Subscribe{Start: earliest}) // 5 MB into a window of 256 KiB
		for i := uint64(100); i < 150; i++ {
			p.publish(&i, strconv.FormatUint(i, 10)+big)
			p.acked(i, "")
		}
		for i, got := range ev.take(150) {
			if got.payload != strconv.Itoa(i)+big {
				t.Fatalf("event %d is %.10q", i, got.payload)
			}
			if got.has != (i < 100) {
				t.Fatalf("event %d: has offset: %v", i, got.has)
			}
		}
	})
}

// Publishes race with resumes: every event from the start position on arrives
// once, in order.
func TestResumeRacesWithPublishes(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		const events = 3000
		var publishing sync.WaitGroup
		publishing.Go(func() {
			p := c.control()
			for i := 0; i < events; i += 3 {
				p.publish(nil, strconv.Itoa(i), strconv.Itoa(i+1), strconv.Itoa(i+2))
			}
			p.alive()
		})
		var resuming sync.WaitGroup
		for range 4 {
			resuming.Go(func() {
				other := e.dial()
				defer other.close()
				for next := 0; next < events; {
					ev, _ := other.subscribe(wire.Subscribe{Start: from(uint64(next))})
					// Read some, then come back for the rest.
					n := min(events-next, 1+next/2)
					for read := 0; read < n; {
						f := ev.frame()
						b, err := wire.ParseEventBatch(f.Flags, f.Payload())
						if err != nil {
							t.Error(err)
							return
						}
						for p := range b.Items.All() {
							if next+read == events {
								break // "alive"
							}
							if string(p) != strconv.Itoa(next+read) {
								t.Errorf("event %d is %q", next+read, p)
								return
							}
							read++
						}
						n = max(n, read)
					}
					next += n
					ev.s.CancelRead(0)
				}
			})
		}
		resuming.Wait()
		publishing.Wait()
	}, func(_ *Config, o *broker.Options) { o.RingEntries = 10_000 })
}

// STOP_SENDING ends a subscription at once, with no event to be written.
func TestStopSendingEndsASubscription(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		ev, _ := c.subscribe(wire.Subscribe{})
		keep, _ := c.subscribe(wire.Subscribe{})
		ev.s.CancelRead(0)
		eventually(t, "subscription gone", func() bool {
			return e.stream(t).Info().Subscriptions == 1 && e.count(SubscriptionsStopped) == 1
		})
		c.control().alive()
		keep.takePayloads("alive")
	})
}

// A stopped control stream means that the client will not learn of its
// subscription: it is given up.
func TestSubscribeWithoutAnAudience(t *testing.T) {
	e := newEnv(t)
	c := e.dial(func(l *memLink) { l.uniCredit = 0 })
	s := c.control()
	s.send(&wire.Subscribe{TenantID: testTenant, Namespace: testNS, Stream: topic})
	eventually(t, "registered", func() bool { return e.stream(t).Info().Subscriptions == 1 })
	s.s.CancelRead(0)
	c.link.mu.Lock()
	c.link.uniCredit = 1
	c.link.changed.Broadcast()
	c.link.mu.Unlock()
	eventually(t, "given up", func() bool { return e.stream(t).Info().Subscriptions == 0 })
	c.control().alive()
	c.close()
	e.close()
}

// When a stream is deleted its subscribers get what is queued, then FIN.
func TestDeletedStreamEndsWithFIN(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		ev, _ := c.subscribe(wire.Subscribe{})
		c.control().alive()
		eventually(t, "published", func() bool { return e.stream(t).Info().NextSeq == 1 })
		e.broker.DeleteStream(broker.Key{Tenant: testTenant, Namespace: testNS, Name: topic})
		ev.takePayloads("alive")
		ev.ended()
		if n := e.count(SubscriptionsEnded); n != 1 {
			t.Errorf("%d counted", n)
		}
	})
}

// A client that goes away in the middle of everything leaves nothing behind.
func TestConnectionEndsInTheMiddle(t *testing.T) {
	e := newEnv(t, func(cfg *Config, _ *broker.Options) { cfg.AckOnCommit = true })
	for range 20 {
		c := e.dial()
		c.subscribe(wire.Subscribe{Start: earliest})
		s := c.control()
		for i := range uint64(50) {
			s.publish(&i, strings.Repeat("x", 10_000))
		}
		c.close()
		if c.serveErr == nil {
			t.Error("Serve does not say why the connection ended")
		}
	}
	if n := len(e.server.Stats().Connections); n != 0 {
		t.Errorf("%d connections left", n)
	}
	e.close()
}

// Serve ends a connection when its context does.
func TestServeContext(t *testing.T) {
	e := newEnv(t)
	l := newMemLink()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- e.server.Serve(ctx, memConn{l}) }()
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("Serve does not return")
	}
	e.close()
}
