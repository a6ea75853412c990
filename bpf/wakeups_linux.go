//go:build amd64 || arm64

package bpf

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/cilium/ebpf"
)

var wakeupsProbe = &probe{
	metric: MetricWakeups,
	variants: []variant{
		{
			attachment: AttachTracepoint,
			programs:   []string{objectsProgFelixWaking},
			set:        map[string]any{objectsVarTaskRegs: true},
		},
		{
			attachment: AttachTracepoint,
			limits:     "the kernel does not tell the system call (Linux 5.15)",
			programs:   []string{objectsProgFelixWaking},
			set:        map[string]any{objectsVarTaskRegs: false},
		},
	},
	maps: []string{objectsMapFelixWakeups},
	read: readWakeups,
}

// causes are in the order of enum sleep_cause.
var causes = [...]Cause{
	CauseNone, CauseEpoll, CauseFutex, CauseTimer, CauseReceive, CauseSend, CauseFile, CausePoll, CauseOther, CauseUnknown,
}

// wakers are in the order of enum waker.
var wakers = [...]Waker{WakerSelf, WakerOther}

func readWakeups(m map[string]*ebpf.Map, s *Snapshot) error {
	raw, err := entries[objectsWakeupKey, objectsWakeupCount](m, objectsMapFelixWakeups)
	if err != nil {
		return err
	}
	w := &Wakeups{By: make([]WakeupCount, 0, len(raw))}
	for k, v := range raw {
		w.Total += v.Wakeups
		w.By = append(w.By, WakeupCount{
			Cause: named(causes[:], k.Cause), Waker: named(wakers[:], k.Waker),
			Syscall: syscallName(k.Syscall), Count: v.Wakeups,
		})
	}
	slices.SortFunc(w.By, func(a, b WakeupCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Syscall, b.Syscall), cmp.Compare(a.Waker, b.Waker))
	})
	s.Wakeups = w
	return nil
}

// named returns the i-th name.
func named[S ~string](names []S, i uint32) S {
	if int(i) < len(names) {
		return names[i]
	}
	return S(strconv.Itoa(int(i)))
}

// syscallName returns "" for -1, no system call.
func syscallName(nr int32) string {
	if nr < 0 {
		return ""
	}
	if n, ok := syscallNames[nr]; ok {
		return n
	}
	return "syscall " + strconv.Itoa(int(nr))
}
