package session

import (
	"testing"
	"testing/synctest"
	"time"

	"felix/broker"
	"felix/wire"
)

func TestAuthAnswers(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		good := e.token()
		for _, tc := range []struct {
			name string
			auth wire.Auth
			want wire.Message
			ends bool
		}{
			{"without flags", wire.Auth{TenantID: testTenant, Token: good}, &wire.OK{}, false},
			{"all flags", wire.Auth{TenantID: testTenant, Token: good, ClientFlags: flags(63)}, &wire.AuthOK{ServerFlags: 63}, false},
			{"no flag", wire.Auth{TenantID: testTenant, Token: good, ClientFlags: flags(0)}, &wire.AuthOK{ServerFlags: 63}, false},
			{"flags of a newer client", wire.Auth{TenantID: testTenant, Token: good, ClientFlags: flags(8191)}, &wire.AuthOK{ServerFlags: 63}, false},
			{"bad token", wire.Auth{TenantID: testTenant, Token: "demo-token", ClientFlags: flags(63)}, &wire.Error{Message: "auth failed"}, true},
			{"token of another tenant", wire.Auth{TenantID: "t2", Token: good}, &wire.Error{Message: "auth failed"}, true},
		} {
			t.Run(tc.name, func(t *testing.T) {
				s := c.raw()
				s.t = t
				s.send(&tc.auth)
				expect(s, tc.want)
				if tc.ends {
					s.ended()
					s.stopped(CodeUnauthenticated)
					return
				}
				s.alive()
			})
		}
	})
}

// Newer clients put more into auth than this broker knows.
func TestAuthIgnoresUnknownFields(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		s := c.raw()
		body := `{"type":"auth","tenant_id":"t1","token":"` + e.token() +
			`","client_flags":8191,"client_features":4294967295,"client_features_hi":3}`
		s.bytes(append(wire.AppendHeader(nil, 0, len(body)), body...))
		expect(s, &wire.AuthOK{ServerFlags: 63})
	})
}

func TestAuthComesFirstAndOnce(t *testing.T) {
	for _, tc := range []struct {
		name string
		send func(*testStream)
	}{
		{"json publish", func(s *testStream) {
			s.send(&wire.Publish{TenantID: testTenant, Namespace: testNS, Stream: topic, RequestID: id(1)})
		}},
		{"unacked batch", func(s *testStream) { s.publish(nil, "x") }},
		{"acked batch", func(s *testStream) { s.publish(id(1), "x") }},
		{"subscribe", func(s *testStream) {
			s.send(&wire.Subscribe{TenantID: testTenant, Namespace: testNS, Stream: topic})
		}},
		{"cache get", func(s *testStream) {
			s.send(&wire.CacheGet{TenantID: testTenant, Namespace: testNS, Cache: testCache, Key: "k"})
		}},
		{"wrong direction", func(s *testStream) { s.send(&wire.OK{}) }},
	} {
		t.Run(tc.name+" before auth", func(t *testing.T) {
			run(t, func(e *env, c *testClient) {
				other := c.control()
				s := c.raw()
				tc.send(s)
				expectError(s, "auth required")
				s.ended()
				s.stopped(CodeUnauthenticated)
				other.alive()
			})
		})
	}
	t.Run("twice", func(t *testing.T) {
		run(t, func(e *env, c *testClient) {
			other := c.control()
			s := c.control()
			s.send(&wire.Auth{TenantID: testTenant, Token: e.token()})
			expectError(s, "auth already established")
			s.ended()
			s.stopped(CodeUnauthenticated)
			other.alive()
		})
	})
}

// Requests that come before the answer to auth wait for it.
func TestRequestsPipelinedBehindAuth(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		s := c.raw()
		s.send(&wire.Auth{TenantID: testTenant, Token: e.token(), ClientFlags: flags(63)})
		s.publish(id(1), "a")
		s.publish(id(2), "b")
		expect(s, &wire.AuthOK{ServerFlags: 63})
		s.acked(1, "")
		s.acked(2, "")
	})
}

func TestFrameLimitBeforeAuth(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		s := c.raw()
		s.bytes(wire.AppendHeader(nil, 0, 64<<10+1))
		expectError(s, "frame of 65537 bytes exceeds the limit of 65536 bytes before authentication")
		s.ended()
		s.stopped(CodeFrameTooLarge) // the rest is not read, whoever that is
		if n := e.count(OversizedFrames); n != 1 {
			t.Errorf("%d oversized frames counted", n)
		}
	}, func(cfg *Config, _ *broker.Options) { cfg.LingerTimeout = time.Hour })
}

// A stream that sends something but no complete auth is ended after the time
// limit, and one that authenticated is not.
func TestAuthTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run(t, func(e *env, c *testClient) {
			good := c.control()
			start := time.Now()
			silent, partial, flagged := c.raw(), c.raw(), c.raw()
			partial.bytes(wire.AppendHeader(nil, 0, 100))
			unknown := wire.AppendHeader(nil, 0x4000, 0)
			flagged.bytes(unknown) // answered, but no auth
			expectError(flagged, "unsupported frame flags")
			uni := c.link.openUni()
			for _, s := range []*testStream{silent, partial, flagged} {
				expectError(s, "authentication timeout")
				s.ended()
				if d := time.Since(start); d != 10*time.Second {
					t.Errorf("ended after %v", d)
				}
			}
			synctest.Wait()
			for _, s := range []*testStream{silent, partial, flagged} {
				s.stopped(CodeAuthTimeout)
			}
			if code, ok := uni.stopped(); !ok || Code(code) != CodeAuthTimeout {
				t.Errorf("uni stream stopped: %v, code %v", ok, Code(code))
			}
			time.Sleep(time.Hour)
			good.alive()
			if n := e.count(AuthTimeouts); n != 4 {
				t.Errorf("%d timeouts counted", n)
			}
		})
	})
}

// Only so many streams of a connection are in their handshake at a time; further
// ones are not read, and their time runs all the same. Nobody else waits for
// them.
func TestHandshakesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, func(cfg *Config, _ *broker.Options) { cfg.MaxHandshakes = 2 })
		c := e.dial()
		good := c.control()
		start := time.Now()
		silent := []*testStream{c.raw(), c.raw()}
		synctest.Wait()
		time.Sleep(time.Second)
		slow := c.raw()
		slow.bytes([]byte("FLX1"))
		time.Sleep(time.Second)
		waiting := c.raw()
		waiting.send(&wire.Auth{TenantID: testTenant, Token: e.token()})
		uni := &testStream{t: t, s: c.link.openUni()}
		uni.send(&wire.Auth{TenantID: testTenant, Token: e.token()})
		uni.fin()
		synctest.Wait()
		if n := e.count(AuthOK); n != 1 {
			t.Errorf("%d streams authenticated, out of turn", n)
		}
		other := e.dial()
		other.control().alive()
		expect(waiting, &wire.OK{})
		if d := time.Since(start); d != 10*time.Second {
			t.Errorf("had its turn after %v", d)
		}
		for _, s := range silent {
			expectError(s, "authentication timeout")
		}
		expectError(slow, "authentication timeout")
		if d := time.Since(start); d != 11*time.Second {
			t.Errorf("a stream that waited for its turn was ended after %v", d)
		}
		waiting.alive()
		for range 5 { // handshakes that are done do not count
			c.control().alive()
		}
		good.alive()
		c.close()
		other.close()
		e.close()
	})
}

// What waits for a turn that never comes is ended in its time.
func TestWaitingForAHandshakeIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, func(cfg *Config, _ *broker.Options) { cfg.MaxHandshakes = 2 })
		c := e.dial()
		good := c.control()
		start := time.Now()
		var all []*testStream
		for range 20 {
			s := c.raw()
			s.bytes([]byte("FLX1"))
			all = append(all, s)
		}
		for _, s := range all {
			expectError(s, "authentication timeout")
			s.ended()
		}
		if d := time.Since(start); d != 10*time.Second {
			t.Errorf("took %v", d)
		}
		good.alive()
		c.close()
		e.close()
	})
}

// A connection of which no stream authenticates is closed, however many streams
// it opens and whatever they say. A valid token on one of them lifts the limit.
func TestConnectionAuthTimeout(t *testing.T) {
	for _, tc := range []struct {
		name string
		send func(*env, *testClient)
	}{
		{"no stream", func(*env, *testClient) {}},
		{"silent streams", func(_ *env, c *testClient) {
			for range 100 {
				c.raw().bytes([]byte("FLX1"))
				c.link.openUni()
			}
		}},
		{"refused tokens", func(_ *env, c *testClient) {
			for range 100 {
				b, err := wire.AppendMessageFrame(nil, &wire.Auth{TenantID: testTenant, Token: "no"})
				if err != nil {
					c.t.Error(err)
				}
				if _, err := c.link.openStream().Write(b); err != nil {
					return // closed, as it should be at some time
				}
				time.Sleep(time.Second)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				c, other := e.dial(), e.dial()
				good := other.control()
				start := time.Now()
				go tc.send(e, c)
				<-c.served
				if d := time.Since(start); d != time.Minute {
					t.Errorf("closed after %v", d)
				}
				want := &memAppError{code: 1, reason: "authentication timeout"}
				if got := c.link.closed.(*memAppError); *got != *want {
					t.Errorf("closed with %v, want %v", got, want)
				}
				time.Sleep(time.Hour)
				good.alive()
				if n := e.count(ConnectionAuthTimeouts); n != 1 {
					t.Errorf("%d counted", n)
				}
				other.close()
				e.close()
			})
		})
	}
}

// As long as no stream has authenticated, only so many are served. A client that
// opens many at once and authenticates them is not held up.
func TestStreamsBeforeAuthAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		c := e.dial()
		for range 200 {
			c.raw().bytes([]byte("FLX1"))
		}
		synctest.Wait()
		if n := e.count(ControlStreams); n > 17 { // one more is accepted and waits
			t.Errorf("%d streams taken from a connection without a token", n)
		}
		legit := e.dial()
		start := time.Now()
		var all []*testStream
		for range 41 {
			all = append(all, legit.raw())
		}
		synctest.Wait()
		for _, s := range all {
			s.send(&wire.Auth{TenantID: testTenant, Token: e.token()})
		}
		for _, s := range all {
			expect(s, &wire.OK{})
			s.alive()
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("took %v", d)
		}
		legit.close()
		c.close()
		e.close()
	})
}

// A stream that waits for its handshake does not hold up a drain.
func TestHandshakesAndDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, func(cfg *Config, _ *broker.Options) { cfg.MaxHandshakes = 1 })
		c := e.dial()
		a, b := c.raw(), c.raw()
		synctest.Wait()
		start := time.Now()
		if err := e.server.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d != 350*time.Millisecond {
			t.Errorf("took %v", d)
		}
		for _, s := range []*testStream{a, b} {
			if code, ok := s.s.stopped(); !ok || Code(code) != CodeShuttingDown {
				t.Errorf("stopped %v with %v", ok, Code(code))
			}
		}
		c.closedByDrain(t)
		e.close()
	})
}
