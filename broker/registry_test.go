package broker

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestLookupErrors(t *testing.T) {
	b := newBroker(t, Options{})
	if err := b.CreateNamespace("t1", "default"); err != nil {
		t.Fatal(err)
	}
	_, err := b.Stream(Key{"t1", "default", "demo"})
	var missing *NotFoundError
	if !errors.As(err, &missing) || err.Error() != "stream not found: tenant=t1 namespace=default stream=demo" {
		t.Fatalf("stream: %v", err)
	}
	_, err = b.Cache(Key{"t1", "default", "demo"})
	if !errors.As(err, &missing) || err.Error() != "cache scope not found: t1/default/demo" {
		t.Fatalf("cache: %v", err)
	}
	if got := b.Stats().Events; got[StreamNotFound] != 1 || got[CacheNotFound] != 1 {
		t.Fatalf("events %v", got)
	}
}

func TestParentsAreCreated(t *testing.T) {
	b := newBroker(t, Options{})
	if err := b.CreateStream(Key{"a", "n", "s"}, StreamOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := b.CreateCache(Key{"b", "n", "c"}); err != nil {
		t.Fatal(err)
	}
	if err := b.CreateTenant("c"); err != nil {
		t.Fatal(err)
	}
	if !b.HasNamespace("a", "n") || !b.HasNamespace("b", "n") || b.HasNamespace("c", "n") || b.HasNamespace("d", "n") {
		t.Fatal("parents")
	}
	first, _ := b.Stream(Key{"a", "n", "s"})
	if err := b.CreateStream(Key{"a", "n", "s"}, StreamOptions{RingEntries: 1}); err != nil {
		t.Fatal(err)
	}
	if again, _ := b.Stream(Key{"a", "n", "s"}); again != first || again.ring.maxEvents == 1 {
		t.Fatal("creating an existing stream changed it")
	}
	if infos := b.Streams(); len(infos) != 1 || infos[0].Key != first.Key() || infos[0].Handle != 1 {
		t.Fatalf("streams %+v", infos)
	}
	if infos := b.Caches(); len(infos) != 1 || infos[0].Key != (Key{"b", "n", "c"}) {
		t.Fatalf("caches %+v", infos)
	}
}

func TestAutoCreate(t *testing.T) {
	b := newBroker(t, Options{AutoCreate: true})
	if err := b.CreateNamespace("t1", "default"); err != nil {
		t.Fatal(err)
	}
	var missing *NotFoundError
	for _, k := range []Key{{"t2", "default", "x"}, {"t1", "other", "x"}} {
		if _, err := b.Stream(k); !errors.As(err, &missing) {
			t.Fatalf("stream %v: %v", k, err)
		}
		if _, err := b.Cache(k); !errors.As(err, &missing) {
			t.Fatalf("cache %v: %v", k, err)
		}
	}
	var invalid *InvalidNameError
	if _, err := b.Stream(Key{"t1", "default", ""}); !errors.As(err, &invalid) {
		t.Fatalf("empty name: %v", err)
	}
	// All who ask at once get the same stream.
	got := make([]*Stream, 8)
	var asking sync.WaitGroup
	for i := range got {
		asking.Go(func() { got[i], _ = b.Stream(Key{"t1", "default", "x"}) })
	}
	asking.Wait()
	for _, s := range got {
		if s == nil || s != got[0] {
			t.Fatalf("streams %v", got)
		}
	}
	c, err := b.Cache(Key{"t1", "default", "x"})
	if err != nil || c.Key() != (Key{"t1", "default", "x"}) {
		t.Fatalf("cache: %v", err)
	}
	if n := b.Stats().Events[StreamCreated]; n != 1 {
		t.Fatalf("%d created", n)
	}
}

func TestNamesAreChecked(t *testing.T) {
	b := newBroker(t, Options{MaxNameBytes: 1 << 20}) // the wire's limit is lower
	var invalid *InvalidNameError
	for _, name := range []string{"", "\xff", strings.Repeat("x", 65536)} {
		for _, err := range []error{
			b.CreateTenant(name),
			b.CreateNamespace(name, "n"),
			b.CreateNamespace("t", name),
			b.CreateStream(Key{name, "n", "s"}, StreamOptions{}),
			b.CreateStream(Key{"t", name, "s"}, StreamOptions{}),
			b.CreateStream(Key{"t", "n", name}, StreamOptions{}),
			b.CreateCache(Key{"t", "n", name}),
		} {
			if !errors.As(err, &invalid) {
				t.Errorf("name of %d bytes: %v", len(name), err)
			}
		}
	}
	if err := b.CreateTenant(strings.Repeat("x", 65535)); err != nil {
		t.Error(err)
	}
}

func TestObjectLimits(t *testing.T) {
	b := newBroker(t, Options{MaxStreams: 1, MaxCaches: 1, AutoCreate: true})
	newStreamOf(t, b, testKey)
	newCacheOf(t, b, testKey)
	other := Key{testKey.Tenant, testKey.Namespace, "other"}
	var limit *LimitError
	if _, err := b.Stream(other); !errors.As(err, &limit) || limit.What != "streams" {
		t.Fatalf("stream: %v", err)
	}
	if _, err := b.Cache(other); !errors.As(err, &limit) || limit.What != "caches" {
		t.Fatalf("cache: %v", err)
	}
	if !b.DeleteStream(testKey) || !b.DeleteCache(testKey) {
		t.Fatal("delete")
	}
	newStreamOf(t, b, other)
	newCacheOf(t, b, other)
}

func TestDeleteParents(t *testing.T) {
	b := newBroker(t, Options{})
	keys := []Key{{"t", "n1", "a"}, {"t", "n1", "b"}, {"t", "n2", "a"}, {"u", "n1", "a"}}
	for _, k := range keys {
		newStreamOf(t, b, k)
		newCacheOf(t, b, k)
	}
	left := func() (names []string) {
		for _, i := range b.Streams() {
			names = append(names, i.Key.String())
		}
		slices.Sort(names)
		return names
	}
	if !b.DeleteNamespace("t", "n1") || b.DeleteNamespace("t", "n1") || b.DeleteNamespace("x", "n1") {
		t.Fatal("delete namespace")
	}
	if got := left(); !slices.Equal(got, []string{"t/n2/a", "u/n1/a"}) || len(b.Caches()) != 2 {
		t.Fatalf("left %v", got)
	}
	if !b.DeleteTenant("t") || b.DeleteTenant("t") {
		t.Fatal("delete tenant")
	}
	if got := left(); !slices.Equal(got, []string{"u/n1/a"}) || b.HasNamespace("t", "n2") {
		t.Fatalf("left %v", got)
	}
	if n := b.Stats().Events[StreamDeleted]; n != 3 {
		t.Fatalf("%d deleted", n)
	}
}

// A namespace that goes away between the look-up and the creation stays away.
func TestAutoCreateNeedsNamespace(t *testing.T) {
	b := newBroker(t, Options{AutoCreate: true})
	missing := &NotFoundError{Key: testKey}
	_, err := autoCreate(b, testKey, missing, StreamNotFound, func() (*Stream, error) {
		return b.makeStream(testKey, StreamOptions{})
	})
	if err != missing || b.HasNamespace(testKey.Tenant, testKey.Namespace) {
		t.Fatalf("created: %v", err)
	}
}

// A stream belongs to the worker with the number of its handle modulo Workers.
func TestWorkerOwnership(t *testing.T) {
	b := newBroker(t, Options{Workers: 3})
	for i := range 7 {
		s := newStreamOf(t, b, Key{"t", "n", strings.Repeat("s", i+1)})
		if info := s.Info(); info.Worker != int(info.Handle%3) {
			t.Fatalf("handle %d at worker %d", info.Handle, info.Worker)
		}
	}
}

// Names are kept for as long as what they name, so their size is bounded like everything else that is kept.
func TestNameLimit(t *testing.T) {
	long := strings.Repeat("x", 1025)
	b := newBroker(t, Options{AutoCreate: true})
	if err := b.CreateNamespace("t", "n"); err != nil {
		t.Fatal(err)
	}
	_, streamErr := b.Stream(Key{"t", "n", long})
	_, cacheErr := b.Cache(Key{"t", "n", long})
	for what, err := range map[string]error{
		"tenant": b.CreateTenant(long), "namespace": b.CreateNamespace("t", long),
		"stream": b.CreateStream(Key{"t", "n", long}, StreamOptions{}), "cache": b.CreateCache(Key{"t", "n", long}),
		"stream on first use": streamErr, "cache on first use": cacheErr,
	} {
		var invalid *InvalidNameError
		if !errors.As(err, &invalid) || !strings.HasSuffix(err.Error(), ": 1025 bytes, at most 1024 (max_name_bytes)") || strings.HasPrefix(err.Error(), "broker: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, name := range []string{long[:1024], "s"} {
		k := Key{"t", "n", name}
		if b.HasStream(k) || b.HasCache(k) {
			t.Errorf("name of %d bytes: there before it was made", len(name))
		}
		_, err := b.Stream(k)
		if _, cacheErr := b.Cache(k); err != nil || cacheErr != nil || !b.HasStream(k) || !b.HasCache(k) {
			t.Errorf("name of %d bytes: %v, %v", len(name), err, cacheErr)
		}
	}
	if b = newBroker(t, Options{MaxNameBytes: 4}); b.CreateTenant("four") != nil || b.CreateTenant("fives") == nil {
		t.Error("the limit of the options does not count")
	}
}
