/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/* What every probe uses: the process filter, atomic counters, histograms. */
#ifndef FELIX_COMMON_H
#define FELIX_COMMON_H

/* The daemon's process id in the first PID namespace; set by the loader. */
const volatile __u32 own_tgid = 0;

static __always_inline bool own(void)
{
	return (__u32)(bpf_get_current_pid_tgid() >> 32) == own_tgid;
}

static __always_inline void count(__u64 *counter, __u64 n)
{
	__sync_fetch_and_add(counter, n);
}

/*
 * Durations by powers of two: slot i counts those of [2^i, 2^(i+1)) ns, slot 0
 * also 0 ns, the last one everything longer. 2^39 ns are nine minutes.
 */
#define HISTOGRAM_SLOTS 40

struct histogram {
	__u64 count;
	__u64 sum_ns;
	__u64 slots[HISTOGRAM_SLOTS];
};

/* log2_floor(0) is 0. */
static __always_inline __u64 log2_floor(__u64 v)
{
	__u64 shift, r;

	r = (v > 0xFFFFFFFF) << 5;
	v >>= r;
	shift = (v > 0xFFFF) << 4;
	v >>= shift;
	r |= shift;
	shift = (v > 0xFF) << 3;
	v >>= shift;
	r |= shift;
	shift = (v > 0xF) << 2;
	v >>= shift;
	r |= shift;
	shift = (v > 0x3) << 1;
	v >>= shift;
	r |= shift;
	return r | (v >> 1);
}

/*
 * Counts v in an array of n slots. Kernels before 6.3 follow bounds through
 * 64-bit comparisons only; the barrier keeps the compiler from dropping the
 * one that they need.
 */
static __always_inline void count_slot(__u64 *slots, __u64 n, __u64 v)
{
	__u64 slot = log2_floor(v);

	if (slot >= n)
		slot = n - 1;
	barrier_var(slot);
	if (slot < n)
		count(&slots[slot], 1);
}

static __always_inline void record(struct histogram *h, __u64 ns)
{
	count(&h->count, 1);
	count(&h->sum_ns, ns);
	count_slot(h->slots, HISTOGRAM_SLOTS, ns);
}

#endif
