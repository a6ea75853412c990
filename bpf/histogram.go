package bpf

import "math/bits"

// Histogram counts values by powers of two: Slots[i] holds those of
// [2^i, 2^(i+1)), Slots[0] also the zeros, the last slot everything beyond.
// What is counted, and its unit, is said where a Histogram is used.
type Histogram struct {
	// Count is the number of values, Sum their exact sum.
	Count uint64   `json:"count"`
	Sum   uint64   `json:"sum"`
	Slots []uint64 `json:"slots"`
}

// Mean returns the exact mean, 0 without values.
func (h Histogram) Mean() float64 {
	if h.Count == 0 {
		return 0
	}
	return float64(h.Sum) / float64(h.Count)
}

// Quantile estimates the value below which the fraction q (0 to 1) of the
// values lies, evenly distributed inside a slot: at most a factor of two off.
// It is 0 without values.
func (h Histogram) Quantile(q float64) float64 {
	var total uint64
	for _, n := range h.Slots {
		total += n
	}
	if total == 0 {
		return 0
	}
	rank := min(max(q, 0), 1) * float64(total)
	var below float64
	last := 0.0
	for i, n := range h.Slots {
		if n == 0 {
			continue
		}
		low, high := slotEdges(i)
		if below+float64(n) >= rank {
			return low + (high-low)*max(rank-below, 0)/float64(n)
		}
		below += float64(n)
		last = high
	}
	return last
}

// slotEdges returns the smallest value of a slot and the smallest beyond it.
func slotEdges(i int) (low, high float64) {
	if i == 0 {
		return 0, 2
	}
	return float64(uint64(1) << min(i, 63)), 2 * float64(uint64(1)<<min(i, 63))
}

// slotOf is what the programs compute: the slot of v among n.
func slotOf(v uint64, n int) int {
	if v == 0 {
		return 0
	}
	return min(bits.Len64(v)-1, n-1)
}

// Sub returns what was counted since the earlier state o. Counters that went
// backwards give 0.
func (h Histogram) Sub(o Histogram) Histogram {
	d := Histogram{Count: since(h.Count, o.Count), Sum: since(h.Sum, o.Sum), Slots: make([]uint64, len(h.Slots))}
	for i, n := range h.Slots {
		d.Slots[i] = n
		if i < len(o.Slots) {
			d.Slots[i] = since(n, o.Slots[i])
		}
	}
	return d
}

// since returns now - before, 0 if that is negative.
func since[T uint64 | uint32](now, before T) T {
	if now < before {
		return 0
	}
	return now - before
}

// subtract goes through the entries of now, takes off what the entry of the
// same key in before counts, and keeps those that still count something.
func subtract[E any, K comparable](now, before []E, key func(E) K, sub func(E, E) (E, bool)) []E {
	old := make(map[K]E, len(before))
	for _, e := range before {
		old[key(e)] = e
	}
	out := make([]E, 0, len(now))
	for _, e := range now {
		d, counts := sub(e, old[key(e)])
		if counts {
			out = append(out, d)
		}
	}
	return out
}
