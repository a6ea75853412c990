package session

import (
	"math"
	"time"

	"felix/broker"
	"felix/broker/auth"
	"felix/wire"
)

// cachePut handles a cache_put. Without a request id the answer is the last one
// on the stream, as it is for cache_get.
func (s *controlStream) cachePut(m *wire.CachePut) *ending {
	if text := s.permits(auth.ActionCacheWrite, m.TenantID, auth.CacheResource(m.TenantID, m.Namespace, m.Cache)); text != "" {
		return fail(CodeForbidden, text)
	}
	c, err := s.conn.server.broker.Cache(broker.Key{Tenant: m.TenantID, Namespace: m.Namespace, Name: m.Cache})
	if err == nil {
		err = c.Put(m.Key, m.Value, ttl(m.TTLMillis))
	}
	switch {
	case err != nil:
		return s.cacheFailed(m.RequestID, err)
	case m.RequestID == nil:
		return &ending{reply: &wire.OK{}, unread: lastRequestUnread}
	}
	s.out.message(&wire.CacheOK{RequestID: *m.RequestID})
	return nil
}

// cacheGet handles a cache_get.
func (s *controlStream) cacheGet(m *wire.CacheGet) *ending {
	if text := s.permits(auth.ActionCacheRead, m.TenantID, auth.CacheResource(m.TenantID, m.Namespace, m.Cache)); text != "" {
		return fail(CodeForbidden, text)
	}
	c, err := s.conn.server.broker.Cache(broker.Key{Tenant: m.TenantID, Namespace: m.Namespace, Name: m.Cache})
	if err != nil {
		return s.cacheFailed(m.RequestID, err)
	}
	answer := &wire.CacheValue{
		TenantID: m.TenantID, Namespace: m.Namespace, Cache: m.Cache, Key: m.Key, RequestID: m.RequestID,
	}
	if value, ok := c.Get(m.Key); ok {
		answer.Value = value
		if value == nil {
			answer.Value = []byte{} // stored empty: not a miss
		}
	}
	if m.RequestID == nil {
		return &ending{reply: answer, unread: lastRequestUnread}
	}
	s.out.message(answer)
	return nil
}

// cacheFailed answers a request that could not be served. Errors carry no
// request id: the order of the answers tells what they belong to.
func (s *controlStream) cacheFailed(id *uint64, err error) *ending {
	if id == nil {
		return fail(CodeRefused, err.Error())
	}
	s.out.message(&wire.Error{Message: err.Error()})
	return nil
}

// ttl converts the life of a cache value. One that is longer than a
// time.Duration can say, 292 years, never ends.
func ttl(ms *uint64) *time.Duration {
	if ms == nil || *ms > math.MaxInt64/uint64(time.Millisecond) {
		return nil
	}
	d := time.Duration(*ms) * time.Millisecond
	return &d
}
