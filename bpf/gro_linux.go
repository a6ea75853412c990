//go:build amd64 || arm64

package bpf

import (
	"slices"

	"github.com/cilium/ebpf"
)

var groProbe = &probe{
	metric: MetricGRO,
	variants: []variant{{
		attachment: AttachTracepoint,
		programs:   []string{objectsProgFelixGroCopy},
	}},
	maps: []string{objectsMapFelixGro},
	read: readGRO,
}

func readGRO(m map[string]*ebpf.Map, s *Snapshot) error {
	v, err := single[objectsGro](m, objectsMapFelixGro)
	if err != nil {
		return err
	}
	s.GRO = &GRO{
		Merged: v.Merged, Segments: v.Segments, Bytes: v.Bytes,
		PerMerged: Histogram{Count: v.Merged, Sum: v.Segments, Slots: slices.Clone(v.Sizes[:])},
	}
	return nil
}
