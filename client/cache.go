package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"felix/wire"
)

// Cache gives access to one cache of the client's namespace. It is safe for concurrent use; at most as many requests
// are under way as the client has cache streams, and further ones wait for a stream.
type Cache struct {
	c    *Client
	name string
}

// Cache returns the cache with the given name. Whether the broker has it is seen by the first request.
func (c *Client) Cache(name string) *Cache { return &Cache{c: c, name: name} }

// Put stores a value. It vanishes after ttl, rounded up to a millisecond; 0 keeps it for ever. The value may be changed
// after the call has returned.
//
// If the answer is lost, Put is repeated only under the AtLeastOnce policy. Errors: *NotFoundError, *AuthError,
// *TooLargeError, *ServerError, *ConnectionError, ErrConfig, ErrClosed, the error of ctx.
func (c *Cache) Put(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if ttl < 0 {
		return fmt.Errorf("%w: cache ttl is %v", ErrConfig, ttl)
	}
	var id uint64
	m := &wire.CachePut{
		TenantID: c.c.cfg.Tenant, Namespace: c.c.cfg.Namespace, Cache: c.name, Key: key, Value: value, RequestID: &id,
	}
	if ttl > 0 {
		ms := uint64((ttl + time.Millisecond - 1) / time.Millisecond)
		m.TTLMillis = &ms
	}
	_, err := c.c.caches.do(ctx, cacheRequest{
		m: m, id: &id, repeat: c.c.cfg.Retry == AtLeastOnce,
		answers: func(m wire.Message) bool {
			ok, is := m.(*wire.CacheOK)
			return is && ok.RequestID == id
		},
	})
	return err
}

// Get returns the value of a key, and whether there is one. The value is the caller's. Errors are those of Put; a Get whose
// answer is lost is repeated.
func (c *Cache) Get(ctx context.Context, key string) (value []byte, found bool, err error) {
	var id uint64
	m := &wire.CacheGet{
		TenantID: c.c.cfg.Tenant, Namespace: c.c.cfg.Namespace, Cache: c.name, Key: key, RequestID: &id,
	}
	answer, err := c.c.caches.do(ctx, cacheRequest{
		m: m, id: &id, repeat: true,
		answers: func(m wire.Message) bool {
			v, is := m.(*wire.CacheValue)
			return is && v.RequestID != nil && *v.RequestID == id
		},
	})
	if err != nil {
		return nil, false, err
	}
	v := answer.(*wire.CacheValue)
	return v.Value, v.Value != nil, nil
}

// Delete would remove a key. Protocol version 1 has no such request, so the error is an *UnsupportedError; to the same
// effect, overwrite the value with one that has the shortest ttl.
func (c *Cache) Delete(_ context.Context, _ string) error {
	return &UnsupportedError{Feature: "cache delete"}
}

// cacheRequest is a request in the making.
type cacheRequest struct {
	m       wire.Message
	id      *uint64                 // the field of m that takes the request id
	answers func(wire.Message) bool // whether a message is the answer
	repeat  bool                    // may be sent again if the answer is lost
}

// cachePool holds the cache streams.
type cachePool struct {
	c    *Client
	free chan struct{} // a value for each stream that is not in use

	mu    sync.Mutex
	lanes []*cacheLane // those not in use; the last one used comes last
}

// cacheLane is a place for a cache stream, which carries one request at a time.
type cacheLane struct {
	slot   *slot
	ctl    *control // nil: not open
	lastID uint64
	frame  []byte
}

func newCachePool(c *Client) *cachePool {
	slots := newSlots(c, "cache", c.cfg.CacheConns)
	n := c.cfg.CacheConns * c.cfg.CacheStreams
	p := &cachePool{c: c, free: make(chan struct{}, n)}
	for i := range n {
		p.lanes = append(p.lanes, &cacheLane{slot: slots[i%len(slots)]})
		p.free <- struct{}{}
	}
	return p
}

// acquire returns a lane for exclusive use, preferably one that was used a moment ago.
func (p *cachePool) acquire(ctx context.Context) (*cacheLane, error) {
	select {
	case <-p.free:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.lanes) - 1
	l := p.lanes[last]
	p.lanes = p.lanes[:last]
	return l, nil
}

func (p *cachePool) release(l *cacheLane) {
	p.mu.Lock()
	p.lanes = append(p.lanes, l)
	p.mu.Unlock()
	p.free <- struct{}{}
}

// do sends a request and returns the answer.
func (p *cachePool) do(ctx context.Context, r cacheRequest) (wire.Message, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if p.c.isClosed() {
		return nil, ErrClosed
	}
	l, err := p.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer p.release(l)
	for attempt := 1; ; attempt++ {
		answer, err := l.do(ctx, p.c, r)
		if err == nil || !r.repeat || !repeatable(err) || attempt >= p.c.cfg.MaxAttempts {
			return answer, err
		}
		if attempt == 1 {
			continue
		}
		if err := p.c.sleep(ctx, p.c.cfg.Backoff.pause(attempt)); err != nil {
			return nil, err
		}
	}
}

// do makes one attempt. After a failure the stream is given up, since the next answer on it might be that of this request.
func (l *cacheLane) do(ctx context.Context, c *Client, r cacheRequest) (wire.Message, error) {
	if err := l.encode(r, c.cfg.MaxFrameBytes); err != nil {
		return nil, err
	}
	if err := l.open(ctx, c); err != nil {
		return nil, err
	}
	c.count.cacheRequests.Add(1)
	answer, err := l.exchange(ctx, c)
	if err == nil && !r.answers(answer) {
		err = unexpected("cache", answer)
	}
	if err != nil {
		l.ctl.abandon()
		l.ctl = nil
		if c.life.Err() != nil {
			return nil, ErrClosed
		}
	}
	return answer, err
}

func (l *cacheLane) encode(r cacheRequest, limit int) (err error) {
	l.lastID++
	*r.id = l.lastID
	if cap(l.frame) > maxPooledFrame {
		l.frame = nil
	}
	l.frame, err = wire.AppendMessageFrame(l.frame[:0], r.m)
	if err != nil {
		return fmt.Errorf("felix: cache: %w", err)
	}
	if size := len(l.frame) - wire.HeaderLen; size > limit {
		return &TooLargeError{Size: size, Limit: limit}
	}
	return nil
}

func (l *cacheLane) open(ctx context.Context, c *Client) error {
	if l.ctl != nil && l.ctl.link.alive() {
		return nil
	}
	_, err := c.persist(ctx, func(ctx context.Context) (err error) {
		l.ctl, err = l.slot.open(ctx)
		return err
	})
	return err
}

// exchange writes the request and reads the answer.
func (l *cacheLane) exchange(ctx context.Context, c *Client) (wire.Message, error) {
	release := guard(ctx, l.ctl.st, c.cfg.RequestTimeout)
	_, err := l.ctl.st.Write(l.frame)
	var m wire.Message
	if err == nil {
		m, err = l.ctl.receive()
	}
	release()
	if err == nil {
		l.ctl.link.heard.Add(1)
	}
	if err != nil {
		err = streamErr(ctx, "cache", err)
		var lost *ConnectionError
		if errors.As(err, &lost) {
			lost.OutcomeUnknown = true
		}
		return nil, err
	}
	if e, ok := m.(*wire.Error); ok {
		return nil, refusal(e.Message)
	}
	return m, nil
}
