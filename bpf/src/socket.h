/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/* Socket facts that several probes need. */
#ifndef FELIX_SOCKET_H
#define FELIX_SOCKET_H

/*
 * The cookie of a socket that has one. Asking for SO_COOKIE, as the loader does
 * for watched sockets, gives it one; the member can be read on every kernel.
 */
static __always_inline __u64 cookie_of(struct sock *sk)
{
	return BPF_CORE_READ(sk, __sk_common.skc_cookie.counter);
}

static __always_inline __u32 local_port_of(struct sock *sk)
{
	return BPF_CORE_READ(sk, __sk_common.skc_num);
}

/* Before Linux 5.6 the protocol is a bit field. */
static __always_inline bool is_udp(struct sock *sk)
{
	return sk && BPF_CORE_READ_BITFIELD_PROBED(sk, sk_protocol) == IPPROTO_UDP;
}

/* The socket behind a descriptor of the current process, or NULL. */
static __always_inline struct sock *socket_at(__u64 fd)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **slots, *file = 0;
	struct socket *socket;

	if (fd >= BPF_CORE_READ(table, max_fds))
		return 0;
	slots = BPF_CORE_READ(table, fd);
	if (bpf_probe_read_kernel(&file, sizeof(file), slots + fd) || !file)
		return 0;
	if ((BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
		return 0;
	socket = BPF_CORE_READ(file, private_data);
	return BPF_CORE_READ(socket, sk);
}

/* What programs hand to sendmsg and its kin: the kernel's fixed 64-bit layout. */
struct user_msg {
	__u64 name;
	__u32 name_bytes;
	__u32 unused0;
	__u64 iov;
	__u64 iov_count;
	__u64 control;
	__u64 control_bytes;
	__u32 flags;
	__u32 unused1;
};

struct user_mmsg {
	struct user_msg msg;
	__u32 bytes; /* filled in by the kernel */
	__u32 unused;
};

struct user_iovec {
	__u64 base;
	__u64 bytes;
};

struct user_cmsg {
	__u64 bytes; /* header included */
	__s32 level;
	__s32 type;
};

/* Batches are counted up to this many messages a call. */
#define MESSAGES_MAX 64

/* The lengths that the kernel stored for the first n messages of a batch. */
static __always_inline __u64 stored_bytes(__u64 vector, __u32 n)
{
	struct user_mmsg *m = (struct user_mmsg *)vector;
	__u64 sum = 0;
	__u32 i, bytes;

	for (i = 0; i < MESSAGES_MAX; i++) {
		if (i >= n)
			break;
		if (!bpf_probe_read_user(&bytes, sizeof(bytes), &m[i].bytes))
			sum += bytes;
	}
	return sum;
}

#endif
