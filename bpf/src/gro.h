/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/* Datagrams that arrived merged (UDP GRO). */
#ifndef FELIX_GRO_H
#define FELIX_GRO_H

#define SEGMENT_SLOTS 8

struct gro {
	__u64 merged; /* merged datagrams read */
	__u64 segments; /* datagrams in them */
	__u64 bytes;
	__u64 sizes[SEGMENT_SLOTS]; /* slot i: 2^i .. 2^(i+1)-1 datagrams in one */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct gro);
} felix_gro SEC(".maps");

/*
 * Small linear buffers do not pass here: this adds the segments of merged
 * datagrams and cannot count datagrams.
 */
SEC("tp_btf/skb_copy_datagram_iovec")
int BPF_PROG(felix_gro_copy, struct sk_buff *skb, int length)
{
	struct skb_shared_info *info;
	__u32 zero = 0, size, segments;
	struct gro *g;

	if (!own() || length <= 0)
		return 0;
	info = (struct skb_shared_info *)(skb->head + skb->end);
	size = BPF_CORE_READ(info, gso_size);
	if (!size || !(BPF_CORE_READ(info, gso_type) & SKB_GSO_UDP_L4))
		return 0;
	g = bpf_map_lookup_elem(&felix_gro, &zero);
	if (!g)
		return 0;
	segments = ((__u32)length + size - 1) / size;
	count(&g->merged, 1);
	count(&g->segments, segments);
	count(&g->bytes, (__u32)length);
	count_slot(g->sizes, SEGMENT_SLOTS, segments);
	return 0;
}

#endif
