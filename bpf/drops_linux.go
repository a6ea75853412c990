//go:build amd64 || arm64

package bpf

import (
	"cmp"
	"errors"
	"slices"

	"github.com/cilium/ebpf"
)

var dropsProbe = &probe{
	metric: MetricDrops,
	variants: []variant{{
		attachment: AttachTracepoint,
		programs:   []string{objectsProgFelixDrop},
	}},
	maps:    []string{objectsMapFelixDrops},
	read:    readDrops,
	watch:   watchDrops,
	unwatch: unwatchDrops,
}

func watchDrops(m map[string]*ebpf.Map, s Socket) error {
	fresh := objectsDrops{LocalPort: uint64(s.LocalPort)}
	err := m[objectsMapFelixDrops].Update(s.Cookie, &fresh, ebpf.UpdateNoExist)
	if errors.Is(err, ebpf.ErrKeyExist) {
		return nil
	}
	return err
}

func unwatchDrops(m map[string]*ebpf.Map, s Socket) {
	_ = m[objectsMapFelixDrops].Delete(s.Cookie) // it is not there if the table was full
}

func readDrops(m map[string]*ebpf.Map, s *Snapshot) error {
	raw, err := entries[uint64, objectsDrops](m, objectsMapFelixDrops)
	if err != nil {
		return err
	}
	d := &Drops{Sockets: make([]SocketDrops, 0, len(raw))}
	for cookie, v := range raw {
		d.Sockets = append(d.Sockets, SocketDrops{
			Cookie: cookie, LocalPort: uint16(v.LocalPort),
			BufferFull: v.BufferFull, Memory: v.Memory, Other: v.Other,
		})
	}
	slices.SortFunc(d.Sockets, func(a, b SocketDrops) int {
		return cmp.Or(cmp.Compare(b.Total(), a.Total()), cmp.Compare(a.Cookie, b.Cookie))
	})
	s.Drops = d
	return nil
}
