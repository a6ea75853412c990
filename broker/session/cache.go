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
	c, err := s.conn.server.findCache(broker.Key{Tenant: m.TenantID, Namespace: m.Namespace, Name: m.Cache})
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
	c, err := s.conn.server.findCache(broker.Key{Tenant: m.TenantID, Namespace: m.Namespace, Name: m.Cache})
	if err != nil {
		return s.cacheFailed(m.RequestID, err)
	}
	answer := &wire.CacheValue{
		TenantID: m.TenantID, Namespace: m.Namespace, Cache: m.Cache, Key: m.Key, RequestID: m.RequestID,
	}
	value, ok, held := s.cached(c, m)
	if ok {
		answer.Value = value
		if value == nil {
			answer.Value = []byte{} // stored empty: not a miss
		}
	}
	if m.RequestID == nil {
		return &ending{reply: answer, held: held, unread: lastRequestUnread}
	}
	s.out.push(reply{kind: replyMessage, msg: answer, held: held})
	return nil
}

// cached gets a value, and says what the connection was charged for it. A stream
// that has to wait for room does not hold the value meanwhile, which may be
// another one afterwards.
func (s *controlStream) cached(c *broker.Cache, m *wire.CacheGet) (value []byte, ok bool, held int64) {
	names := len(m.Namespace) + len(m.Cache) + len(m.Key)
	for {
		value, ok = c.Get(m.Key)
		missing := int64(len(value)+2*names) - held // the names also as they are encoded
		switch {
		case len(value) <= smallHold || missing <= 0:
			return value, ok, held
		case s.out.held.try(missing):
			return value, ok, held + missing
		}
		if !s.out.hold(missing) {
			return nil, false, held // the stream has ended
		}
		held += missing
	}
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
