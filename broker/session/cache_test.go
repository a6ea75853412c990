package session

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"felix/broker"
	"felix/wire"
)

func put(key, value string, request, ttl *uint64) *wire.CachePut {
	return &wire.CachePut{TenantID: testTenant, Namespace: testNS, Cache: testCache, Key: key, Value: []byte(value), RequestID: request, TTLMillis: ttl}
}

func get(key string, request *uint64) *wire.CacheGet {
	return &wire.CacheGet{TenantID: testTenant, Namespace: testNS, Cache: testCache, Key: key, RequestID: request}
}

func valueOf(key string, value []byte, request *uint64) *wire.CacheValue {
	return &wire.CacheValue{TenantID: testTenant, Namespace: testNS, Cache: testCache, Key: key, Value: value, RequestID: request}
}

func TestCacheWithRequestIDs(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		s := c.control()
		s.send(get("k", id(1)))
		s.send(put("k", "v", id(2), nil))
		s.send(get("k", id(3)))
		s.send(put("k", "", id(4), nil))
		s.send(get("k", id(5)))
		expect(s, valueOf("k", nil, id(1)))
		expect(s, &wire.CacheOK{RequestID: 2})
		expect(s, valueOf("k", []byte("v"), id(3)))
		expect(s, &wire.CacheOK{RequestID: 4})
		expect(s, valueOf("k", []byte{}, id(5)))
		s.alive()
	})
}

// Without a request id the answer is the last thing on the stream.
func TestCacheWithoutRequestIDs(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		for _, tc := range []struct {
			send, want wire.Message
		}{
			{put("k", "v", nil, nil), &wire.OK{}},
			{get("k", nil), valueOf("k", []byte("v"), nil)},
			{get("none", nil), valueOf("none", nil, nil)},
		} {
			s := c.control()
			s.send(tc.send)
			expect(s, tc.want)
			s.ended()
			s.stopped(CodeNone)
		}
	}, func(cfg *Config, _ *broker.Options) { cfg.LingerTimeout = time.Millisecond })
}

func TestCacheErrors(t *testing.T) {
	const noScope = "cache scope not found: t1/default/none"
	scope := func(m wire.Message) wire.Message {
		switch m := m.(type) {
		case *wire.CachePut:
			m.Cache = "none"
		case *wire.CacheGet:
			m.Cache = "none"
		}
		return m
	}
	tenant := func(m wire.Message) wire.Message {
		switch m := m.(type) {
		case *wire.CachePut:
			m.TenantID = "t2"
		case *wire.CacheGet:
			m.TenantID = "t2"
		}
		return m
	}
	for _, tc := range []struct {
		name, perm string
		send       wire.Message
		text       string
		code       Code // CodeNone: goes on
	}{
		{"put, unknown scope", "", scope(put("k", "v", id(1), nil)), noScope, CodeNone},
		{"get, unknown scope", "", scope(get("k", id(1))), noScope, CodeNone},
		{"put without id, unknown scope", "", scope(put("k", "v", nil, nil)), noScope, CodeRefused},
		{"get without id, unknown scope", "", scope(get("k", nil)), noScope, CodeRefused},
		{"put, wrong tenant", "", tenant(put("k", "v", id(1), nil)), "tenant mismatch", CodeForbidden},
		{"get, wrong tenant", "", tenant(get("k", id(1))), "tenant mismatch", CodeForbidden},
		{"put, only read", "cache.read:cache:t1/*", put("k", "v", id(1), nil), "forbidden", CodeForbidden},
		{"get, only write", "cache.write:cache:t1/*", get("k", id(1)), "forbidden", CodeForbidden},
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
				expectError(s, tc.text)
				if tc.code == CodeNone {
					s.alive()
					return
				}
				s.ended()
				s.stopped(tc.code)
				other.alive()
			})
		})
	}
}

func TestCacheFull(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		s := c.control()
		s.send(put("k", strings.Repeat("x", 2000), id(1), nil))
		m, ok := s.message().(*wire.Error)
		if !ok || !strings.Contains(m.Message, "cache full") {
			t.Fatalf("answer %+v", m)
		}
		s.alive()
	}, func(_ *Config, o *broker.Options) { o.CacheMaxBytes = 1000 })
}

func TestCacheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run(t, func(e *env, c *testClient) {
			s := c.control()
			s.send(put("k", "v", id(1), id(100)))
			expect(s, &wire.CacheOK{RequestID: 1})
			time.Sleep(99 * time.Millisecond)
			s.send(get("k", id(2)))
			expect(s, valueOf("k", []byte("v"), id(2)))
			time.Sleep(51 * time.Millisecond)
			s.send(get("k", id(3)))
			expect(s, valueOf("k", nil, id(3)))
			s.send(put("k", "v", id(4), id(0)))
			expect(s, &wire.CacheOK{RequestID: 4})
			s.send(get("k", id(5)))
			expect(s, valueOf("k", nil, id(5)))
			s.send(put("k", "v", id(6), id(math.MaxUint64)))
			expect(s, &wire.CacheOK{RequestID: 6})
			time.Sleep(10 * 365 * 24 * time.Hour)
			// The token has expired long ago; its stream stays valid.
			s.send(get("k", id(7)))
			expect(s, valueOf("k", []byte("v"), id(7)))
		})
	})
}

// A value that was stored but whose answer does not fit a frame is refused with
// a text, and the stream goes on.
func TestCacheValueLargerThanAFrame(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		cache, err := e.broker.Cache(broker.Key{Tenant: testTenant, Namespace: testNS, Name: testCache})
		if err != nil {
			t.Fatal(err)
		}
		if err := cache.Put("k", make([]byte, 4096), nil); err != nil {
			t.Fatal(err)
		}
		s := c.control()
		s.send(get("k", id(1)))
		m, ok := s.message().(*wire.Error)
		if !ok || !strings.Contains(m.Message, "exceeds the frame limit of 4096 bytes") {
			t.Fatalf("answer %+v", m)
		}
		s.alive()
	}, func(cfg *Config, _ *broker.Options) { cfg.MaxFrameBytes = 4096 })
}
