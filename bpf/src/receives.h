/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/* UDP receives by socket, and how many of them a wakeup brings. */
#ifndef FELIX_RECEIVES_H
#define FELIX_RECEIVES_H

#define BATCH_SLOTS 16

struct receives {
	__u32 local_port;
	__u32 batch; /* read since the socket was last empty */
	__u64 receives; /* a merged datagram counts once */
	__u64 bytes;
	__u64 wakeups; /* times the socket was read until it was empty */
	__u64 empty; /* reads that found nothing, and nothing since the last one */
	__u64 batches[BATCH_SLOTS]; /* slot i: 2^i .. 2^(i+1)-1 receives a wakeup */
};

/* Bounded: sockets that find the table full are not counted by socket. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u64); /* socket cookie; 0: sockets that have none */
	__type(value, struct receives);
} felix_receives SEC(".maps");

enum { EAGAIN_RESULT = -11 };

static __always_inline struct receives *receives_of(struct sock *sk, __u64 cookie)
{
	struct receives fresh = {}, *r = bpf_map_lookup_elem(&felix_receives, &cookie);

	if (r)
		return r;
	fresh.local_port = cookie ? local_port_of(sk) : 0;
	bpf_map_update_elem(&felix_receives, &cookie, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&felix_receives, &cookie);
}

static __always_inline void count_receives(struct receives *r, __u32 n, __u64 bytes)
{
	count(&r->receives, n);
	count(&r->bytes, bytes);
	__sync_fetch_and_add(&r->batch, n);
}

/*
 * The socket is empty. A recvmmsg on a half-filled vector tries twice, so an
 * empty read after nothing ends no batch.
 */
static __always_inline void end_batch(struct receives *r)
{
	__u32 n = r->batch;

	if (!n) {
		count(&r->empty, 1);
		return;
	}
	/* What another thread reads meanwhile belongs to the next batch. */
	__sync_fetch_and_add(&r->batch, -n);
	count(&r->wakeups, 1);
	count_slot(r->batches, BATCH_SLOTS, n);
}

/* Linux 6.3. ret is a length or a negative errno. */
SEC("tp_btf/sock_recv_length")
int BPF_PROG(felix_receive, struct sock *sk, int ret, int flags)
{
	struct receives *r;

	if (!own() || sk->sk_protocol != IPPROTO_UDP)
		return 0;
	if (flags & (MSG_PEEK | MSG_ERRQUEUE) || (ret < 0 && ret != EAGAIN_RESULT))
		return 0;
	r = receives_of(sk, bpf_get_socket_cookie(sk));
	if (!r)
		return 0;
	if (ret >= 0)
		count_receives(r, 1, ret);
	else
		end_batch(r);
	return 0;
}

/* The flags argument of the three receiving calls. */
static __always_inline __u64 receive_flags(struct pt_regs *regs, __s32 nr)
{
	return nr == NR_recvmsg ? ARG2(regs) : ARG3(regs);
}

/* Before Linux 6.3. Attached only where felix_receive cannot be. */
SEC("tp_btf/sys_exit")
int BPF_PROG(felix_sys_recv, struct pt_regs *regs, long ret)
{
	struct receives *r;
	struct sock *sk;
	__s32 nr;

	if (!own())
		return 0;
	nr = ended_call(regs);
	if (nr != NR_recvfrom && nr != NR_recvmsg && nr != NR_recvmmsg)
		return 0;
	if (receive_flags(regs, nr) & (MSG_PEEK | MSG_ERRQUEUE) || (ret < 0 && ret != EAGAIN_RESULT))
		return 0;
	sk = socket_at(ARG0(regs));
	if (!is_udp(sk))
		return 0;
	r = receives_of(sk, cookie_of(sk));
	if (!r)
		return 0;
	if (ret < 0) {
		end_batch(r);
		return 0;
	}
	if (nr != NR_recvmmsg) {
		count_receives(r, 1, ret);
		return 0;
	}
	count_receives(r, ret, stored_bytes(ARG1(regs), ret));
	if (ret < (long)ARG2(regs)) /* stopped because the socket was empty */
		end_batch(r);
	return 0;
}

#endif
