package broker

type tenant struct {
	namespaces map[string]*namespace
}

type namespace struct {
	streams map[string]*Stream
	caches  map[string]*Cache
}

// CreateTenant registers a tenant. One that exists is left as it is.
func (b *Broker) CreateTenant(name string) error {
	if err := b.validateName("tenant", name); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	b.makeTenant(name)
	return nil
}

// CreateNamespace registers a namespace, and its tenant if need be. One that
// exists is left as it is.
func (b *Broker) CreateNamespace(tenant, name string) error {
	if err := b.validateName("tenant", tenant); err != nil {
		return err
	}
	if err := b.validateName("namespace", name); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	b.makeNamespace(tenant, name)
	return nil
}

// CreateStream registers a stream, and its parents if need be. One that exists
// is left as it is, its options included.
func (b *Broker) CreateStream(k Key, o StreamOptions) error {
	if err := b.validateKey(k); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := b.makeStream(k, o)
	return err
}

// CreateCache registers a cache, and its parents if need be. One that exists is
// left as it is.
func (b *Broker) CreateCache(k Key) error {
	if err := b.validateKey(k); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := b.makeCache(k)
	return err
}

// DeleteTenant removes a tenant and everything in it. It reports whether there
// was one.
func (b *Broker) DeleteTenant(name string) bool {
	return b.deleting(func(gone *removed) bool {
		t := b.tenants[name]
		if t == nil {
			return false
		}
		for _, ns := range t.namespaces {
			b.dropNamespace(ns, gone)
		}
		delete(b.tenants, name)
		return true
	})
}

// DeleteNamespace removes a namespace and everything in it. It reports whether
// there was one.
func (b *Broker) DeleteNamespace(tenant, name string) bool {
	return b.deleting(func(gone *removed) bool {
		t := b.tenants[tenant]
		if t == nil || t.namespaces[name] == nil {
			return false
		}
		b.dropNamespace(t.namespaces[name], gone)
		delete(t.namespaces, name)
		return true
	})
}

// DeleteStream removes a stream: publications not yet published are completed
// with a *StreamGoneError, and its subscriptions end once they are drained. It
// reports whether there was one.
func (b *Broker) DeleteStream(k Key) bool {
	return b.deleting(func(gone *removed) bool {
		ns := b.namespace(k)
		if ns == nil || ns.streams[k.Name] == nil {
			return false
		}
		b.dropStream(ns.streams[k.Name], gone)
		delete(ns.streams, k.Name)
		return true
	})
}

// DeleteCache removes a cache and its values. It reports whether there was one.
func (b *Broker) DeleteCache(k Key) bool {
	return b.deleting(func(gone *removed) bool {
		ns := b.namespace(k)
		if ns == nil || ns.caches[k.Name] == nil {
			return false
		}
		b.dropCache(ns.caches[k.Name], gone)
		delete(ns.caches, k.Name)
		return true
	})
}

// Stream returns a registered stream. With Options.AutoCreate it makes one in an
// existing namespace. Otherwise the error is a *NotFoundError.
func (b *Broker) Stream(k Key) (*Stream, error) {
	b.mu.RLock()
	ns := b.namespace(k)
	var s *Stream
	if ns != nil {
		s = ns.streams[k.Name]
	}
	b.mu.RUnlock()
	switch {
	case s != nil:
		return s, nil
	case ns == nil || !b.opts.AutoCreate:
		b.count(StreamNotFound)
		return nil, &NotFoundError{Key: k}
	}
	return autoCreate(b, k, &NotFoundError{Key: k}, StreamNotFound, func() (*Stream, error) {
		return b.makeStream(k, StreamOptions{})
	})
}

// Cache returns a registered cache. With Options.AutoCreate it makes one in an
// existing namespace. Otherwise the error is a *NotFoundError.
func (b *Broker) Cache(k Key) (*Cache, error) {
	b.mu.RLock()
	ns := b.namespace(k)
	var c *Cache
	if ns != nil {
		c = ns.caches[k.Name]
	}
	b.mu.RUnlock()
	switch {
	case c != nil:
		return c, nil
	case ns == nil || !b.opts.AutoCreate:
		b.count(CacheNotFound)
		return nil, &NotFoundError{Cache: true, Key: k}
	}
	return autoCreate(b, k, &NotFoundError{Cache: true, Key: k}, CacheNotFound, func() (*Cache, error) {
		return b.makeCache(k)
	})
}

// autoCreate makes what is called for unless the namespace went away meanwhile.
func autoCreate[T any](b *Broker, k Key, missing error, counter Event, mk func() (T, error)) (T, error) {
	var none T
	if err := b.validateKey(k); err != nil {
		return none, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.namespace(k) == nil {
		b.count(counter)
		return none, missing
	}
	return mk()
}

// HasNamespace reports whether the namespace is registered.
func (b *Broker) HasNamespace(tenant, name string) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.namespace(Key{Tenant: tenant, Namespace: name}) != nil
}

// HasStream reports whether the stream is registered.
func (b *Broker) HasStream(k Key) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	ns := b.namespace(k)
	return ns != nil && ns.streams[k.Name] != nil
}

// HasCache reports whether the cache is registered.
func (b *Broker) HasCache(k Key) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	ns := b.namespace(k)
	return ns != nil && ns.caches[k.Name] != nil
}

// Streams describes all registered streams, in no particular order.
func (b *Broker) Streams() []StreamInfo {
	b.mu.RLock()
	defer b.mu.RUnlock()
	out := make([]StreamInfo, 0, len(b.streams))
	for _, s := range b.streams {
		out = append(out, s.Info())
	}
	return out
}

// Caches describes all registered caches, in no particular order.
func (b *Broker) Caches() []CacheInfo {
	b.mu.RLock()
	defer b.mu.RUnlock()
	out := make([]CacheInfo, 0, b.caches)
	for _, t := range b.tenants {
		for _, ns := range t.namespaces {
			for _, c := range ns.caches {
				out = append(out, c.Info())
			}
		}
	}
	return out
}

// The functions below are called with b.mu held.

func (b *Broker) namespace(k Key) *namespace {
	if t := b.tenants[k.Tenant]; t != nil {
		return t.namespaces[k.Namespace]
	}
	return nil
}

func (b *Broker) makeTenant(name string) *tenant {
	t := b.tenants[name]
	if t == nil {
		t = &tenant{namespaces: make(map[string]*namespace)}
		b.tenants[name] = t
	}
	return t
}

func (b *Broker) makeNamespace(tenant, name string) *namespace {
	t := b.makeTenant(tenant)
	ns := t.namespaces[name]
	if ns == nil {
		ns = &namespace{streams: make(map[string]*Stream), caches: make(map[string]*Cache)}
		t.namespaces[name] = ns
	}
	return ns
}

func (b *Broker) makeStream(k Key, o StreamOptions) (*Stream, error) {
	if b.closed {
		return nil, ErrClosed
	}
	if ns := b.namespace(k); ns != nil && ns.streams[k.Name] != nil {
		return ns.streams[k.Name], nil
	}
	if len(b.streams) >= b.opts.MaxStreams {
		return nil, &LimitError{What: "streams", Limit: b.opts.MaxStreams}
	}
	ns := b.makeNamespace(k.Tenant, k.Namespace)
	b.nextHandle++
	s := newStream(b, k, b.nextHandle, o)
	ns.streams[k.Name] = s
	b.streams[s.handle] = s
	b.count(StreamCreated)
	return s, nil
}

func (b *Broker) makeCache(k Key) (*Cache, error) {
	if b.closed {
		return nil, ErrClosed
	}
	if ns := b.namespace(k); ns != nil && ns.caches[k.Name] != nil {
		return ns.caches[k.Name], nil
	}
	if b.caches >= b.opts.MaxCaches {
		return nil, &LimitError{What: "caches", Limit: b.opts.MaxCaches}
	}
	ns := b.makeNamespace(k.Tenant, k.Namespace)
	c := newCache(&b.cache, k)
	ns.caches[k.Name] = c
	b.caches++
	return c, nil
}

// removed collects what a deletion took out of the registry.
type removed struct {
	streams []*Stream
	caches  []*Cache
}

// deleting runs take with b.mu held and then, without it, ends what it took out.
func (b *Broker) deleting(take func(*removed) bool) bool {
	var gone removed
	b.mu.Lock()
	found := take(&gone)
	b.mu.Unlock()
	for _, s := range gone.streams {
		s.remove()
		b.count(StreamDeleted)
	}
	for _, c := range gone.caches {
		c.remove()
	}
	return found
}

func (b *Broker) dropNamespace(ns *namespace, gone *removed) {
	for _, s := range ns.streams {
		b.dropStream(s, gone)
	}
	for _, c := range ns.caches {
		b.dropCache(c, gone)
	}
}

func (b *Broker) dropStream(s *Stream, gone *removed) {
	delete(b.streams, s.handle)
	b.leaving[s.handle] = s
	gone.streams = append(gone.streams, s)
}

func (b *Broker) dropCache(c *Cache, gone *removed) {
	b.caches--
	gone.caches = append(gone.caches, c)
}
