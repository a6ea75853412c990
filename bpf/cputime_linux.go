//go:build amd64 || arm64

package bpf

import (
	"cmp"
	"slices"
	"time"

	"github.com/cilium/ebpf"
)

var cpuTimeProbe = &probe{
	metric: MetricCPUTime,
	variants: []variant{{
		attachment: AttachTracepoint,
		programs:   []string{objectsProgFelixWakeup, objectsProgFelixWakeNew, objectsProgFelixSwitch, objectsProgFelixExit},
	}},
	maps: []string{objectsMapFelixCpu, objectsMapFelixThreads},
	read: readCPUTime,
}

func readCPUTime(m map[string]*ebpf.Map, s *Snapshot) error {
	sum, err := single[objectsCpuTime](m, objectsMapFelixCpu)
	if err != nil {
		return err
	}
	threads, err := entries[uint32, objectsThread](m, objectsMapFelixThreads)
	if err != nil {
		return err
	}
	c := &CPUTime{
		RunQueue:    nanoseconds(sum.RunQueue),
		OnCPU:       nanoseconds(sum.OnCpu),
		Asleep:      nanoseconds(sum.Asleep),
		Preemptions: sum.Preemptions,
		Untracked:   sum.Untracked,
		Threads:     make([]ThreadTime, 0, len(threads)),
	}
	t := now()
	for tid, e := range threads {
		c.Threads = append(c.Threads, threadTime(tid, e, t))
	}
	slices.SortFunc(c.Threads, func(a, b ThreadTime) int {
		return cmp.Or(cmp.Compare(b.RunQueue, a.RunQueue), cmp.Compare(a.TID, b.TID))
	})
	s.CPUTime = c
	return nil
}

// threadTime adds the stretch that the thread is in at the time now.
func threadTime(tid uint32, e objectsThread, now uint64) ThreadTime {
	switch {
	case e.RunningAtNs != 0: // a stamp of readiness may be left from before
		e.OnCpuNs += since(now, e.RunningAtNs)
	case e.ReadyAtNs != 0:
		e.RunQueueNs += since(now, e.ReadyAtNs)
	case e.AsleepAtNs != 0:
		e.AsleepNs += since(now, e.AsleepAtNs)
	}
	return ThreadTime{
		TID:         int(tid),
		RunQueue:    time.Duration(e.RunQueueNs),
		OnCPU:       time.Duration(e.OnCpuNs),
		Asleep:      time.Duration(e.AsleepNs),
		Runs:        e.Runs,
		Preemptions: e.Preemptions,
	}
}
