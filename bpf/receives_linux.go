//go:build amd64 || arm64

package bpf

import (
	"cmp"
	"slices"

	"github.com/cilium/ebpf"
)

var receivesProbe = &probe{
	metric: MetricReceives,
	variants: []variant{
		{
			attachment: AttachTracepoint,
			programs:   []string{objectsProgFelixReceive},
		},
		{
			attachment: AttachSyscallExit,
			limits:     "not seen: read(2) on sockets, io_uring; sockets that nobody watches are counted together",
			programs:   []string{objectsProgFelixSysRecv},
		},
	},
	maps: []string{objectsMapFelixReceives},
	read: readReceives,
	unwatch: func(m map[string]*ebpf.Map, s Socket) {
		_ = m[objectsMapFelixReceives].Delete(s.Cookie) // it may have received nothing
	},
}

func readReceives(m map[string]*ebpf.Map, s *Snapshot) error {
	raw, err := entries[uint64, objectsReceives](m, objectsMapFelixReceives)
	if err != nil {
		return err
	}
	r := &Receives{Sockets: make([]SocketReceives, 0, len(raw))}
	for cookie, v := range raw {
		r.Sockets = append(r.Sockets, SocketReceives{
			Cookie: cookie, LocalPort: uint16(v.LocalPort),
			Receives: v.Receives, Bytes: v.Bytes, Wakeups: v.Wakeups, Empty: v.Empty,
			PerWakeup: Histogram{
				Count: v.Wakeups, Sum: since(v.Receives, uint64(v.Batch)),
				Slots: slices.Clone(v.Batches[:]),
			},
		})
	}
	slices.SortFunc(r.Sockets, func(a, b SocketReceives) int {
		return cmp.Or(cmp.Compare(b.Receives, a.Receives), cmp.Compare(a.Cookie, b.Cookie))
	})
	s.Receives = r
	return nil
}
