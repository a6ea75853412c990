/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/* UDP sends: accepted ones as totals, refused ones by errno and by peer. */
#ifndef FELIX_SENDS_H
#define FELIX_SENDS_H

struct sends {
	__u64 sent; /* messages that the kernel took; a segmented one counts once */
	__u64 bytes;
	__u64 refused;
	__u64 untracked; /* refusals that found a table full */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sends);
} felix_sends SEC(".maps");

/* Named for readers of the tables; other errors appear as numbers. */
enum send_error {
	EPERM = 1,
	EIO = 5,
	EAGAIN = 11,
	ENOMEM = 12,
	EACCES = 13,
	EINVAL = 22,
	EPIPE = 32,
	EMSGSIZE = 90,
	ENETDOWN = 100,
	ENETUNREACH = 101,
	ENOBUFS = 105,
	ECONNREFUSED = 111,
	EHOSTUNREACH = 113,
};

enum send_call {
	CALL_OTHER, /* write, io_uring */
	CALL_SENDTO,
	CALL_SENDMSG,
	CALL_SENDMMSG,
};

struct refusal_key {
	enum send_error error;
	enum send_call call;
};

struct refusal {
	__u64 count;
	__u64 bytes; /* sum of the attempted lengths */
	__u64 unread; /* attempts whose length could not be read */
	__u32 shortest; /* of the lengths read */
	__u32 longest;
	__u32 last_length;
	__u32 last_segment; /* 0: not segmented */
	__u32 last_local_port;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 128);
	__type(key, struct refusal_key);
	__type(value, struct refusal);
} felix_refused SEC(".maps");

struct peer_key {
	enum send_error error;
	__u32 port;
	__u8 address[16]; /* IPv4 as ::ffff:a.b.c.d; zero: not read */
};

struct peer_refusal {
	__u64 count;
	__u32 last_length;
	__u32 last_segment;
};

/* Bounded, since anybody can be a peer; what does not fit is in the totals. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct peer_key);
	__type(value, struct peer_refusal);
} felix_peers SEC(".maps");

/*
 * How far a thread has got with its sendmmsg: the hook sees each message, but
 * not its place in the vector.
 */
struct send_batch {
	__u64 vector;
	__u32 done;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct send_batch);
} felix_sendmmsg SEC(".maps");

struct attempt {
	__u64 name; /* user address of the destination, 0 when connected */
	__u32 length;
	__u32 segment;
	bool read;
};

static __always_inline struct sends *sends(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&felix_sends, &zero);
}

static __always_inline enum send_call call_of(__s32 nr)
{
	switch (nr) {
	case NR_sendto:
		return CALL_SENDTO;
	case NR_sendmsg:
		return CALL_SENDMSG;
	case NR_sendmmsg:
		return CALL_SENDMMSG;
	}
	return CALL_OTHER;
}

/* The segment size in the message's control data, 0 without one. */
static __always_inline __u32 segment_of(struct user_msg *m)
{
	__u64 at = m->control, end = at + m->control_bytes;
	struct user_cmsg c;
	__u16 size = 0;
	__u32 i;

	if (!at)
		return 0;
	for (i = 0; i < 8; i++) {
		if (at + sizeof(c) > end || bpf_probe_read_user(&c, sizeof(c), (void *)at))
			return 0;
		if (c.bytes < sizeof(c))
			return 0;
		if (c.level == SOL_UDP && c.type == UDP_SEGMENT) {
			bpf_probe_read_user(&size, sizeof(size), (void *)(at + sizeof(c)));
			return size;
		}
		at += (c.bytes + 7) & ~7ULL;
	}
	return 0;
}

static __always_inline void read_msg(struct attempt *a, __u64 address)
{
	struct user_msg m;
	struct user_iovec v;
	__u64 length = 0;
	__u32 segment;
	__u32 i;

	if (bpf_probe_read_user(&m, sizeof(m), (void *)address))
		return;
	for (i = 0; i < 32; i++) {
		if (i >= m.iov_count)
			break;
		if (bpf_probe_read_user(&v, sizeof(v), (void *)(m.iov + i * sizeof(v))))
			return;
		length += v.bytes;
	}
	a->length = length;
	a->name = m.name_bytes ? m.name : 0;
	segment = segment_of(&m);
	if (segment)
		a->segment = segment;
	a->read = m.iov_count <= 32;
}

/* index is the message's place in the vector of a sendmmsg. */
static __always_inline void read_attempt(struct attempt *a, struct sock *sk, enum send_call call,
					 __u64 arg1, __u64 arg2, __u64 arg4, __u32 index)
{
	/* The socket's own segment size (setsockopt) unless the message has one. */
	a->segment = BPF_CORE_READ((struct udp_sock *)sk, gso_size);

	switch (call) {
	case CALL_SENDTO:
		a->length = arg2;
		a->name = arg4;
		a->read = true;
		break;
	case CALL_SENDMSG:
		read_msg(a, arg1);
		break;
	case CALL_SENDMMSG:
		read_msg(a, arg1 + index * sizeof(struct user_mmsg));
		break;
	case CALL_OTHER:
		break;
	}
}

static __always_inline void set_v4(struct peer_key *k, __be32 address)
{
	k->address[10] = k->address[11] = 0xFF;
	__builtin_memcpy(&k->address[12], &address, 4);
}

/* The start of sockaddr_in and sockaddr_in6. */
struct user_address {
	__u16 family;
	__be16 port;
	__u32 v4_or_flow;
	__u8 v6[16];
};

static __always_inline void read_peer(struct peer_key *k, struct sock *sk, __u64 name)
{
	struct user_address a = {};
	__u16 family;

	if (name) {
		/* sockaddr_in is shorter: read its part first. */
		if (bpf_probe_read_user(&a, 8, (void *)name))
			return;
		k->port = __builtin_bswap16(a.port);
		if (a.family == AF_INET)
			set_v4(k, a.v4_or_flow);
		else if (a.family == AF_INET6)
			bpf_probe_read_user(k->address, 16, (void *)(name + 8));
		return;
	}
	k->port = __builtin_bswap16(BPF_CORE_READ(sk, __sk_common.skc_dport));
	family = BPF_CORE_READ(sk, __sk_common.skc_family);
	if (family == AF_INET)
		set_v4(k, BPF_CORE_READ(sk, __sk_common.skc_daddr));
	else if (family == AF_INET6)
		bpf_core_read(k->address, 16, &sk->__sk_common.skc_v6_daddr);
}

static __always_inline void count_peer(struct sends *s, struct sock *sk, __u32 error, struct attempt *a)
{
	struct peer_key key = { .error = error };
	struct peer_refusal fresh = {}, *p;

	read_peer(&key, sk, a->name);
	p = bpf_map_lookup_elem(&felix_peers, &key);
	if (!p) {
		bpf_map_update_elem(&felix_peers, &key, &fresh, BPF_NOEXIST);
		p = bpf_map_lookup_elem(&felix_peers, &key);
	}
	if (!p) {
		count(&s->untracked, 1);
		return;
	}
	count(&p->count, 1);
	p->last_length = a->length;
	p->last_segment = a->segment;
}

static __always_inline struct refusal *refusal_of(__u32 error, enum send_call call)
{
	struct refusal_key key = { .error = error, .call = call };
	struct refusal fresh = { .shortest = ~0U }, *r;

	r = bpf_map_lookup_elem(&felix_refused, &key);
	if (r)
		return r;
	bpf_map_update_elem(&felix_refused, &key, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&felix_refused, &key);
}

static __always_inline void count_refusal(struct sock *sk, __u32 error, enum send_call call, struct attempt *a)
{
	struct sends *s = sends();
	struct refusal *r = refusal_of(error, call);

	if (!s)
		return;
	count(&s->refused, 1);
	count_peer(s, sk, error, a);
	if (!r) {
		count(&s->untracked, 1);
		return;
	}
	count(&r->count, 1);
	r->last_segment = a->segment;
	r->last_local_port = local_port_of(sk);
	if (!a->read) {
		count(&r->unread, 1);
		return;
	}
	count(&r->bytes, a->length);
	r->last_length = a->length;
	if (a->length < r->shortest)
		r->shortest = a->length;
	if (a->length > r->longest)
		r->longest = a->length;
}

static __always_inline void count_sent(__u64 messages, __u64 bytes)
{
	struct sends *s = sends();

	if (!s)
		return;
	count(&s->sent, messages);
	count(&s->bytes, bytes);
}

/*
 * The place of the current message in its sendmmsg: the number of messages the
 * thread has sent from this vector. A call ends with its last message or with
 * the first refused one, and both reset the count.
 */
static __always_inline __u32 batch_index(struct task_struct *task, __u64 vector, __u32 length, bool refused)
{
	struct send_batch *b;
	__u32 index;

	if (length <= 1)
		return 0;
	b = bpf_task_storage_get(&felix_sendmmsg, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!b)
		return 0;
	index = b->vector == vector ? b->done : 0;
	b->vector = vector;
	b->done = index + 1;
	if (refused || b->done >= length || b->done >= UIO_MAXIOV)
		b->done = 0;
	return index;
}

/* Linux 6.3. ret is a length or a negative errno. */
SEC("tp_btf/sock_send_length")
int BPF_PROG(felix_send, struct sock *sk, int ret, int flags)
{
	struct attempt a = {};
	struct task_struct *task;
	struct pt_regs *regs;
	enum send_call call;
	__u32 index = 0;
	__s32 nr;

	if (!own() || sk->sk_protocol != IPPROTO_UDP)
		return 0;
	if (ret >= 0)
		count_sent(1, ret);

	task = bpf_get_current_task_btf();
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	nr = sleeping_in(regs);
	call = call_of(nr);
	if (call == CALL_SENDMMSG)
		index = batch_index(task, ARG1(regs), ARG2(regs), ret < 0);
	if (ret >= 0)
		return 0;
	read_attempt(&a, sk, call, ARG1(regs), ARG2(regs), ARG4(regs), index);
	count_refusal(sk, -ret, call, &a);
	return 0;
}

/* Before Linux 6.3. Attached only where felix_send cannot be. */
SEC("tp_btf/sys_exit")
int BPF_PROG(felix_sys_send, struct pt_regs *regs, long ret)
{
	struct attempt a = {};
	enum send_call call;
	struct sock *sk;

	if (!own())
		return 0;
	call = call_of(ended_call(regs));
	if (call == CALL_OTHER)
		return 0;
	sk = socket_at(ARG0(regs));
	if (!is_udp(sk))
		return 0;
	if (ret >= 0) {
		if (call == CALL_SENDMMSG)
			count_sent(ret, stored_bytes(ARG1(regs), ret));
		else
			count_sent(1, ret);
		return 0;
	}
	read_attempt(&a, sk, call, ARG1(regs), ARG2(regs), ARG4(regs), 0);
	count_refusal(sk, -ret, call, &a);
	return 0;
}

#endif
