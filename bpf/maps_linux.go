//go:build amd64 || arm64

package bpf

import (
	"fmt"

	"github.com/cilium/ebpf"
)

// mapPrefix starts the name of each map, so that lists of maps show whose they
// are.
const mapPrefix = "felix_"

// entries reads a hash map. Entries that come or go meanwhile may be missing.
func entries[K comparable, V any](m map[string]*ebpf.Map, name string) (map[K]V, error) {
	out := map[K]V{}
	var k K
	var v V
	it := m[name].Iterate()
	for it.Next(&k, &v) {
		out[k] = v
	}
	if err := it.Err(); err != nil {
		return nil, fmt.Errorf("read map %s: %w", name, err)
	}
	return out, nil
}

// single reads the only entry of an array map.
func single[V any](m map[string]*ebpf.Map, name string) (V, error) {
	var v V
	if err := m[name].Lookup(uint32(0), &v); err != nil {
		return v, fmt.Errorf("read map %s: %w", name, err)
	}
	return v, nil
}

func nanoseconds(h objectsHistogram) Histogram {
	return Histogram{Count: h.Count, Sum: h.SumNs, Slots: append([]uint64(nil), h.Slots[:]...)}
}
