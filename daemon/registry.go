package daemon

import (
	"fmt"

	"felix/broker"
)

// register makes everything that r lists and is not there yet.
func register(b *broker.Broker, r Registry) error {
	for _, t := range r.Tenants {
		if err := b.CreateTenant(t); err != nil {
			return fmt.Errorf("registry: tenant %s: %w", t, err)
		}
	}
	for _, n := range r.Namespaces {
		if err := b.CreateNamespace(n.Tenant, n.Namespace); err != nil {
			return fmt.Errorf("registry: namespace %s/%s: %w", n.Tenant, n.Namespace, err)
		}
	}
	for _, s := range r.Streams {
		key := broker.Key{Tenant: s.Tenant, Namespace: s.Namespace, Name: s.Stream}
		if err := b.CreateStream(key, broker.StreamOptions{RingEntries: s.RingEntries, RingBytes: s.RingBytes}); err != nil {
			return fmt.Errorf("registry: stream %s: %w", key, err)
		}
	}
	for _, c := range r.Caches {
		key := broker.Key{Tenant: c.Tenant, Namespace: c.Namespace, Name: c.Cache}
		if err := b.CreateCache(key); err != nil {
			return fmt.Errorf("registry: cache %s: %w", key, err)
		}
	}
	return nil
}
