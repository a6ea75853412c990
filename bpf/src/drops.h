/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/* Datagrams dropped at the receive buffer of a watched socket. */
#ifndef FELIX_DROPS_H
#define FELIX_DROPS_H

struct drops {
	__u64 local_port;
	__u64 buffer_full; /* the socket's receive buffer */
	__u64 memory; /* the limit of all UDP sockets, net.ipv4.udp_mem */
	__u64 other;
};

/*
 * Filled by the loader. A drop happens in an interrupt, on behalf of whoever
 * was running: only the socket tells whose it is.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u64); /* socket cookie */
	__type(value, struct drops);
} felix_drops SEC(".maps");

/* Kernels from 6.10 on pass the skb as well; two arguments are enough. */
SEC("tp_btf/udp_fail_queue_rcv_skb")
int BPF_PROG(felix_drop, int rc, struct sock *sk)
{
	__u64 cookie = cookie_of(sk);
	struct drops *d;

	if (!cookie)
		return 0;
	d = bpf_map_lookup_elem(&felix_drops, &cookie);
	if (!d)
		return 0;
	if (rc == -12) /* ENOMEM */
		count(&d->buffer_full, 1);
	else if (rc == -105) /* ENOBUFS */
		count(&d->memory, 1);
	else
		count(&d->other, 1);
	return 0;
}

#endif
