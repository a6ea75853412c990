package broker

import (
	"container/heap"
	"strings"
	"sync"
	"time"
)

// cacheEntryBytes is what an entry costs beyond its key and value: the entry,
// its share of the map and of the expiry heap.
const cacheEntryBytes = 192

// cacheStore holds the values of all caches. They share one byte limit, one
// lock, and one queue by expiry, from which expired values are removed whenever
// any cache is used: no timer, no goroutine, and no memory held by dead values
// while there is traffic.
type cacheStore struct {
	broker *Broker
	limit  int64
	now    func() time.Time

	mu     sync.Mutex
	used   int64
	count  int
	expiry expiryHeap
}

type cacheEntry struct {
	cache    *Cache
	key      string
	value    []byte
	deadline time.Time
	pos      int // in the heap; -1: never expires
}

func (e *cacheEntry) bytes() int64 { return int64(len(e.key)+len(e.value)) + cacheEntryBytes }

func (st *cacheStore) init(b *Broker) {
	st.broker, st.limit, st.now = b, b.opts.CacheMaxBytes, time.Now
}

func (st *cacheStore) size() (entries int, bytes int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.count, st.used
}

// Cache is one key space. All caches of a broker share Options.CacheMaxBytes.
type Cache struct {
	store   *cacheStore
	key     Key
	entries map[string]*cacheEntry // guarded by store.mu; nil once deleted
	bytes   int64                  // guarded by store.mu
}

func newCache(st *cacheStore, k Key) *Cache {
	return &Cache{store: st, key: k, entries: make(map[string]*cacheEntry)}
}

// Key returns the cache's name.
func (c *Cache) Key() Key { return c.key }

// Put stores value, which belongs to the cache from then on and must not be
// changed. With a ttl the value is gone that much later, at once if it is zero
// or less; without, it stays until it is replaced or deleted. The error is a
// *CacheFullError, and the previous value then stays, or a *NotFoundError if the
// cache was deleted.
func (c *Cache) Put(key string, value []byte, ttl *time.Duration) error {
	st := c.store
	now := st.now()
	st.mu.Lock()
	defer st.mu.Unlock()
	st.sweep(now)
	if c.entries == nil {
		return &NotFoundError{Cache: true, Key: c.key}
	}
	old := c.entries[key]
	e := &cacheEntry{cache: c, key: strings.Clone(key), value: value, pos: -1}
	used := st.used
	if old != nil {
		used -= old.bytes()
	}
	if used+e.bytes() > st.limit {
		st.broker.count(CachePutRefused)
		return &CacheFullError{Need: e.bytes(), Used: used, Limit: st.limit}
	}
	if old != nil {
		st.remove(old)
	}
	if ttl != nil {
		e.deadline = now.Add(*ttl)
	}
	st.insert(e)
	st.broker.count(CachePut)
	return nil
}

// Get returns the value of key, which must not be changed.
func (c *Cache) Get(key string) ([]byte, bool) {
	st := c.store
	now := st.now()
	st.mu.Lock()
	defer st.mu.Unlock()
	st.sweep(now)
	e := c.entries[key]
	if e == nil {
		st.broker.count(CacheMiss)
		return nil, false
	}
	st.broker.count(CacheHit)
	return e.value, true
}

// Delete removes the value of key and returns it.
func (c *Cache) Delete(key string) ([]byte, bool) {
	st := c.store
	now := st.now()
	st.mu.Lock()
	defer st.mu.Unlock()
	st.sweep(now)
	e := c.entries[key]
	if e == nil {
		return nil, false
	}
	st.remove(e)
	st.broker.count(CacheDeleted)
	return e.value, true
}

// Info describes the cache. Values that have expired and were not removed yet
// are not counted.
func (c *Cache) Info() CacheInfo {
	st := c.store
	now := st.now()
	st.mu.Lock()
	defer st.mu.Unlock()
	st.sweep(now)
	return CacheInfo{Key: c.key, Entries: len(c.entries), Bytes: c.bytes}
}

// remove empties a cache that was taken out of the registry.
func (c *Cache) remove() {
	st := c.store
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, e := range c.entries {
		st.remove(e)
		st.broker.count(CacheDeleted)
	}
	c.entries = nil
}

// The functions below are called with st.mu held.

// sweep removes everything that has expired.
func (st *cacheStore) sweep(now time.Time) {
	for len(st.expiry) > 0 && !st.expiry[0].deadline.After(now) {
		st.remove(st.expiry[0])
		st.broker.count(CacheExpired)
	}
}

func (st *cacheStore) insert(e *cacheEntry) {
	c := e.cache
	c.entries[e.key] = e
	c.bytes += e.bytes()
	st.used += e.bytes()
	st.count++
	if !e.deadline.IsZero() {
		heap.Push(&st.expiry, e)
	}
}

func (st *cacheStore) remove(e *cacheEntry) {
	c := e.cache
	delete(c.entries, e.key)
	c.bytes -= e.bytes()
	st.used -= e.bytes()
	st.count--
	if e.pos >= 0 {
		heap.Remove(&st.expiry, e.pos)
	}
}

// expiryHeap orders entries by deadline for container/heap.
type expiryHeap []*cacheEntry

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(i, j int) bool { return h[i].deadline.Before(h[j].deadline) }
func (h expiryHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}

func (h *expiryHeap) Push(x any) {
	e := x.(*cacheEntry)
	e.pos = len(*h)
	*h = append(*h, e)
}

func (h *expiryHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	e.pos = -1
	return e
}
