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
// ones are not read, and have their turn and their full time later. Nobody else
// waits for them.
func TestHandshakesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, func(cfg *Config, _ *broker.Options) { cfg.MaxHandshakes = 2 })
		c := e.dial()
		start := time.Now()
		silent := []*testStream{c.raw(), c.raw()}
		synctest.Wait()
		waiting := c.raw()
		waiting.send(&wire.Auth{TenantID: testTenant, Token: e.token()})
		uni := &testStream{t: t, s: c.link.openUni()}
		uni.send(&wire.Auth{TenantID: testTenant, Token: e.token()})
		uni.fin()
		synctest.Wait()
		if n := e.count(AuthOK); n != 0 {
			t.Errorf("%d streams authenticated out of turn", n)
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
		waiting.alive()
		for range 5 { // handshakes that are done do not count
			c.control().alive()
		}
		c.close()
		other.close()
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
