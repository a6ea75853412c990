package broker

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

var cacheKey = Key{"t1", "default", "primary"}

func newCacheOf(t tester, b *Broker, k Key) *Cache {
	t.Helper()
	if err := b.CreateCache(k); err != nil {
		t.Fatalf("create %v: %v", k, err)
	}
	c, err := b.Cache(k)
	if err != nil {
		t.Fatalf("cache %v: %v", k, err)
	}
	return c
}

func ttlOf(d time.Duration) *time.Duration { return &d }

// The cache against a map with deadlines, over faked time.
func TestCacheMatchesModel(t *testing.T) {
	type value struct {
		text     string
		deadline time.Time
		forever  bool
	}
	rapid.Check(t, func(t *rapid.T) {
		b := New(Options{Workers: 1})
		defer b.Close(t.Context())
		now := time.Unix(1000, 0)
		b.cache.now = func() time.Time { return now }
		caches := []*Cache{newCacheOf(t, b, cacheKey), newCacheOf(t, b, Key{"t1", "default", "other"})}
		model := map[string]value{}
		alive := func(id string) (string, bool) {
			v, ok := model[id]
			if !ok || !v.forever && !now.Before(v.deadline) {
				return "", false
			}
			return v.text, true
		}
		pick := func(t *rapid.T) (*Cache, string, string) {
			c := rapid.IntRange(0, 1).Draw(t, "cache")
			key := rapid.StringMatching("[a-e]").Draw(t, "key")
			return caches[c], key, fmt.Sprint(c, key)
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				c, key, id := pick(t)
				v := value{text: rapid.StringN(0, 9, -1).Draw(t, "value"), forever: rapid.Bool().Draw(t, "for ever")}
				var ttl *time.Duration
				if !v.forever {
					ttl = ttlOf(time.Duration(rapid.IntRange(0, 5).Draw(t, "ttl")) * time.Second)
					v.deadline = now.Add(*ttl)
				}
				if err := c.Put(key, []byte(v.text), ttl); err != nil {
					t.Fatalf("put: %v", err)
				}
				model[id] = v
			},
			"get": func(t *rapid.T) {
				c, key, id := pick(t)
				got, ok := c.Get(key)
				want, wantOK := alive(id)
				if ok != wantOK || string(got) != want {
					t.Fatalf("get %q: %q, %v; want %q, %v", id, got, ok, want, wantOK)
				}
			},
			"delete": func(t *rapid.T) {
				c, key, id := pick(t)
				got, ok := c.Delete(key)
				want, wantOK := alive(id)
				if ok != wantOK || string(got) != want {
					t.Fatalf("delete %q: %q, %v; want %q, %v", id, got, ok, want, wantOK)
				}
				delete(model, id)
			},
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 3).Draw(t, "seconds")) * time.Second)
			},
			"": func(t *rapid.T) {
				entries, bytes := 0, int64(0)
				for id := range model {
					if text, ok := alive(id); ok {
						entries++
						bytes += int64(1+len(text)) + cacheEntryBytes
					}
				}
				info := caches[0].Info()
				other := caches[1].Info()
				gotEntries, gotBytes := b.cache.size()
				if gotEntries != entries || gotBytes != bytes || info.Entries+other.Entries != entries || info.Bytes+other.Bytes != bytes {
					t.Fatalf("%d entries, %d bytes (%+v, %+v); want %d, %d", gotEntries, gotBytes, info, other, entries, bytes)
				}
			},
		})
	})
}

func TestCacheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{})
		defer b.Close(t.Context())
		c := newCacheOf(t, b, cacheKey)
		put := func(key string, ttl *time.Duration) {
			if err := c.Put(key, []byte(key), ttl); err != nil {
				t.Fatal(err)
			}
		}
		has := func(key string) bool { _, ok := c.Get(key); return ok }
		put("for ever", nil)
		put("short", ttlOf(100*time.Millisecond))
		put("none", ttlOf(0))
		put("short", ttlOf(0)) // replaces, and is gone at once
		if has("none") || has("short") || !has("for ever") {
			t.Fatal("ttl 0")
		}
		put("short", ttlOf(100*time.Millisecond))
		time.Sleep(100*time.Millisecond - 1)
		if !has("short") {
			t.Fatal("gone too early")
		}
		time.Sleep(time.Nanosecond)
		if has("short") || !has("for ever") {
			t.Fatal("there after its time")
		}
		if got := b.Stats().Events; got[CacheExpired] != 3 || got[CachePut] != 5 || got[CacheHit] != 3 || got[CacheMiss] != 3 {
			t.Fatalf("events %v", got)
		}
	})
}

// Values that nobody reads again must not pile up.
func TestCacheSweepsExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{CacheMaxBytes: 100 * (cacheEntryBytes + 20)})
		defer b.Close(t.Context())
		c, other := newCacheOf(t, b, cacheKey), newCacheOf(t, b, Key{"t1", "default", "other"})
		for i := range 10_000 {
			if err := c.Put(fmt.Sprintf("key %6d", i), make([]byte, 10), ttlOf(50*time.Millisecond)); err != nil {
				t.Fatalf("value %d: %v", i, err)
			}
			if n, _ := b.cache.size(); n > 50 || len(b.cache.expiry) != n {
				t.Fatalf("%d values, %d in the queue by expiry", n, len(b.cache.expiry))
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		if err := other.Put("k", make([]byte, 90*(cacheEntryBytes+20)), nil); err != nil {
			t.Fatalf("what expired in one cache makes no room in another: %v", err)
		}
	})
}

func TestCacheLimit(t *testing.T) {
	b := newBroker(t, Options{CacheMaxBytes: 2 * (cacheEntryBytes + 11)})
	c := newCacheOf(t, b, cacheKey)
	ten := make([]byte, 10)
	for _, key := range []string{"a", "b", "a"} {
		if err := c.Put(key, ten, nil); err != nil {
			t.Fatal(err)
		}
	}
	want := CacheFullError{Need: cacheEntryBytes + 11, Used: 2 * (cacheEntryBytes + 11), Limit: 2 * (cacheEntryBytes + 11)}
	var full *CacheFullError
	if err := c.Put("c", ten, nil); !errors.As(err, &full) || *full != want {
		t.Fatalf("put: %v", err)
	}
	if err := c.Put("a", make([]byte, 11), nil); !errors.As(err, &full) {
		t.Fatalf("larger replacement: %v", err)
	}
	if v, ok := c.Get("a"); !ok || len(v) != 10 {
		t.Fatal("a refused replacement lost the value")
	}
	if _, ok := c.Delete("b"); !ok {
		t.Fatal("delete")
	}
	if err := c.Put("c", ten, nil); err != nil {
		t.Fatal(err)
	}
	if n := b.Stats().Events[CachePutRefused]; n != 2 {
		t.Fatalf("%d refusals", n)
	}
}

func TestDeleteCache(t *testing.T) {
	b := newBroker(t, Options{})
	c := newCacheOf(t, b, cacheKey)
	for i := range 10 {
		if err := c.Put(fmt.Sprint(i), nil, ttlOf(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if v, ok := c.Get("3"); !ok || len(v) != 0 {
		t.Fatal("an empty value is a value")
	}
	if !b.DeleteCache(cacheKey) || b.DeleteCache(cacheKey) {
		t.Fatal("delete")
	}
	if st := b.Stats(); st.CacheEntries != 0 || st.CacheBytes != 0 || st.Caches != 0 || len(b.cache.expiry) != 0 {
		t.Fatalf("left over: %+v", st)
	}
	var missing *NotFoundError
	if err := c.Put("k", nil, nil); !errors.As(err, &missing) || err.Error() != "cache scope not found: t1/default/primary" {
		t.Fatalf("put: %v", err)
	}
	if _, ok := c.Get("3"); ok {
		t.Fatal("value of a deleted cache")
	}
}

func TestCacheConcurrently(t *testing.T) {
	b := newBroker(t, Options{CacheMaxBytes: 64 << 10})
	c := newCacheOf(t, b, cacheKey)
	var users sync.WaitGroup
	for u := range 4 {
		users.Go(func() {
			for i := range 2000 {
				key := fmt.Sprint(i % 50)
				switch (u + i) % 4 {
				case 0, 1:
					if err := c.Put(key, []byte(key), ttlOf(time.Duration(i%3)*time.Microsecond)); err != nil {
						t.Errorf("put: %v", err)
					}
				case 2:
					if v, ok := c.Get(key); ok && string(v) != key {
						t.Errorf("key %s has value %s", key, v)
					}
				case 3:
					c.Delete(key)
				}
			}
		})
	}
	users.Wait()
}
