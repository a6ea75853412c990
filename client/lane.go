package client

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// lane is a place for one publish stream. Everything published to a Felix stream goes through the same lane.
type lane struct {
	c       *Client
	slot    *slot
	room    room
	opening chan struct{} // holds a value while the stream is being opened
	cur     atomic.Pointer[pubStream]

	mu        sync.Mutex
	failures  int // attempts to open that have failed
	openErr   error
	finishing bool
}

// newLanes makes the lanes of a client; neighbours are on different connections.
func newLanes(c *Client) []*lane {
	slots := newSlots(c, "publish", c.cfg.PublishConns)
	lanes := make([]*lane, c.cfg.PublishConns*c.cfg.PublishStreams)
	for i := range lanes {
		lanes[i] = &lane{
			c: c, slot: slots[i%len(slots)], opening: make(chan struct{}, 1),
			room: room{maxBytes: c.cfg.InflightBytes, maxRequests: c.cfg.InflightRequests},
		}
	}
	return lanes
}

// stream returns the lane's publish stream and opens it if there is none, waiting for a lost broker as configured.
func (l *lane) stream(ctx context.Context) (*pubStream, error) {
	if ps := l.cur.Load(); ps != nil {
		return ps, nil
	}
	before, _ := l.opened()
	select {
	case l.opening <- struct{}{}:
		defer func() { <-l.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if ps := l.cur.Load(); ps != nil {
		return ps, nil
	}
	if after, err := l.opened(); after != before {
		return nil, err // waited out by the caller before this one
	}
	ps, err := l.open(ctx)
	if err != nil && ctx.Err() == nil {
		l.mu.Lock()
		l.failures++
		l.openErr = err
		l.mu.Unlock()
	}
	return ps, err
}

// opened returns the number of failures so far and the last one.
func (l *lane) opened() (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failures, l.openErr
}

func (l *lane) open(ctx context.Context) (*pubStream, error) {
	var ctl *control
	_, err := l.c.persist(ctx, func(ctx context.Context) (err error) {
		ctl, err = l.slot.open(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	ps := newPubStream(l, ctl)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.finishing || !l.c.spawn(ps.read) {
		ctl.abandon()
		return nil, ErrClosed
	}
	l.cur.Store(ps)
	return ps, nil
}

// finish lets the stream carry what it has and no more.
func (l *lane) finish() {
	l.mu.Lock()
	l.finishing = true
	l.mu.Unlock()
	if ps := l.cur.Load(); ps != nil {
		ps.finish()
	}
}

// await waits until the broker has read and answered everything and has ended the stream.
func (l *lane) await(ctx context.Context) error {
	ps := l.cur.Load()
	if ps == nil {
		return nil
	}
	select {
	case <-ps.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// routes finds the lane of a Felix stream.
type routes struct {
	lanes []*lane
	seed  uint64 // hash of what all streams have in common

	sticky bool // RoundRobin
	mu     sync.RWMutex
	byName map[string]*lane
	next   int
}

// maxRoutes bounds the streams that RoundRobin remembers; further ones are hashed.
const maxRoutes = 1 << 16

func (r *routes) init(cfg Config, lanes []*lane) {
	r.lanes = lanes
	r.seed = fnv(fnv(fnvOffset, cfg.Tenant), cfg.Namespace)
	r.sticky = cfg.Sharding == RoundRobin
	r.byName = make(map[string]*lane)
}

func (r *routes) lane(stream string) *lane {
	if len(r.lanes) == 1 {
		return r.lanes[0]
	}
	if !r.sticky {
		return r.hashed(stream)
	}
	r.mu.RLock()
	l := r.byName[stream]
	r.mu.RUnlock()
	if l != nil {
		return l
	}
	return r.assign(stream)
}

func (r *routes) hashed(stream string) *lane {
	return r.lanes[fnv(r.seed, stream)%uint64(len(r.lanes))]
}

func (r *routes) assign(stream string) *lane {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.byName[stream]; l != nil {
		return l
	}
	if len(r.byName) >= maxRoutes {
		return r.hashed(stream)
	}
	l := r.lanes[r.next%len(r.lanes)]
	r.next++
	r.byName[stream] = l
	return l
}

// FNV-1a, 64 bit.
const (
	fnvOffset = 0xcbf29ce484222325
	fnvPrime  = 0x100000001b3
)

// fnv adds s and an end mark to a hash.
func fnv(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return (h ^ 0xff) * fnvPrime
}

var errStreamEnded = errors.New("the broker ended the stream")

// quiet reports whether nothing is under way.
func (l *lane) quiet() bool { return l.room.empty() }
