/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * The few kernel types that the probes read. Only the members named here are
 * used; preserve_access_index makes the loader fill in where the running
 * kernel has them (CO-RE), so order and neighbours do not matter.
 */
#ifndef FELIX_KERNEL_H
#define FELIX_KERNEL_H

/* bpf_tracing.h then expects the kernel's own member names. */
#define __VMLINUX_H__

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
enum { false, true };

/* Map types and flags of linux/bpf.h. */
enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_TASK_STORAGE = 29 };
enum { BPF_NOEXIST = 1 };
enum { BPF_F_NO_PREALLOC = 1 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	__s64 counter;
} atomic64_t;

struct in6_addr {
	__u8 s6_addr[16]; /* only its address is taken */
};

struct sock_common {
	__be32 skc_daddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	struct in6_addr skc_v6_daddr;
	atomic64_t skc_cookie;
};

struct sock {
	struct sock_common __sk_common;
	__u16 sk_protocol;
};

struct udp_sock {
	__u16 gso_size;
};

struct socket {
	struct sock *sk;
};

struct inode {
	unsigned short i_mode;
};

struct file {
	struct inode *f_inode;
	void *private_data;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	int pid;
	int tgid;
	struct files_struct *files;
};

/* The name of __state before Linux 5.14. */
struct task_struct___v513 {
	volatile long state;
};

struct sk_buff {
	unsigned char *head;
	unsigned int end; /* an offset from head on 64-bit kernels */
};

struct skb_shared_info {
	unsigned short gso_size;
	unsigned int gso_type;
};

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r10, r9, r8, ax, dx, si, di, orig_ax;
};
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	__u64 regs[31];
	__u64 orig_x0;
	__s32 syscallno;
};
#else
#error "processor without a table of system calls"
#endif

#pragma clang attribute pop

/* linux/socket.h, linux/in.h, linux/udp.h, linux/skbuff.h, linux/sched.h */
enum {
	AF_INET = 2,
	AF_INET6 = 10,
	IPPROTO_UDP = 17,
	SOL_UDP = 17,
	UDP_SEGMENT = 103,
	MSG_PEEK = 0x2,
	MSG_ERRQUEUE = 0x2000,
	UIO_MAXIOV = 1024,
	SKB_GSO_UDP_L4 = 1 << 17,
	PF_EXITING = 0x4,
	S_IFMT = 0170000,
	S_IFSOCK = 0140000,
};

#endif
