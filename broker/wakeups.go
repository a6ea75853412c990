package broker

import (
	"math/bits"
	"sync/atomic"
)

// wakeupBuckets is the number of buckets of a WakeupHistogram: bucket i counts
// wakeups with 2^(i-1) < items <= 2^i, the last one everything above.
const wakeupBuckets = 18

// WakeupHistogram counts how many items a stage handled each time it was woken.
// A stage that is woken once per item is the bottleneck of the whole path. While
// recording is off, Record is one load and a branch.
type WakeupHistogram struct {
	stage  string
	help   string
	on     *atomic.Bool
	counts [wakeupBuckets]atomic.Uint64
	items  atomic.Uint64
}

// Record counts one wakeup with the given number of items; below 1 counts
// nothing.
func (h *WakeupHistogram) Record(items int) {
	if !h.on.Load() || items < 1 {
		return
	}
	h.counts[min(bits.Len(uint(items-1)), wakeupBuckets-1)].Add(1)
	h.items.Add(uint64(items))
}

// WakeupStats is a snapshot of one WakeupHistogram.
type WakeupStats struct {
	Stage string
	Help  string
	// Buckets[i] counts wakeups with at most UpperBound(i) and more than
	// UpperBound(i-1) items; the last bucket has no upper bound.
	Buckets [wakeupBuckets]uint64
	Wakeups uint64
	Items   uint64
}

// UpperBound returns the most items that bucket i counts, a power of two.
func (WakeupStats) UpperBound(i int) int { return 1 << i }

func (h *WakeupHistogram) snapshot() WakeupStats {
	s := WakeupStats{Stage: h.stage, Help: h.help, Items: h.items.Load()}
	for i := range h.counts {
		s.Buckets[i] = h.counts[i].Load()
		s.Wakeups += s.Buckets[i]
	}
	return s
}

// Stage returns the histogram of the stage with that name and makes it if there
// is none. help is a sentence that says what an item and a wakeup are.
func (b *Broker) Stage(name, help string) *WakeupHistogram {
	b.stagesMu.Lock()
	defer b.stagesMu.Unlock()
	for _, h := range b.stages {
		if h.stage == name {
			return h
		}
	}
	h := &WakeupHistogram{stage: name, help: help, on: &b.recording}
	b.stages = append(b.stages, h)
	return h
}

// RecordWakeups switches the recording of all stages on or off. Counts are kept
// while it is off.
func (b *Broker) RecordWakeups(on bool) { b.recording.Store(on) }

// Wakeups returns a snapshot of all stages.
func (b *Broker) Wakeups() []WakeupStats {
	b.stagesMu.Lock()
	defer b.stagesMu.Unlock()
	out := make([]WakeupStats, len(b.stages))
	for i, h := range b.stages {
		out[i] = h.snapshot()
	}
	return out
}
