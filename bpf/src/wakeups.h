/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/* Wakeups of our threads by what they slept in and who woke them. */
#ifndef FELIX_WAKEUPS_H
#define FELIX_WAKEUPS_H

enum sleep_cause {
	SLEEP_NO_SYSCALL, /* page fault, signal stop, a thread of the kernel's */
	SLEEP_EPOLL,
	SLEEP_FUTEX,
	SLEEP_TIMER,
	SLEEP_RECEIVE,
	SLEEP_SEND,
	SLEEP_FILE, /* read, write, fsync, fdatasync */
	SLEEP_POLL, /* poll, select */
	SLEEP_OTHER, /* another system call: see nr */
	SLEEP_UNKNOWN, /* the kernel cannot tell */
};

enum waker {
	WAKER_SELF, /* a thread of ours was running, or an interrupt on top of it */
	WAKER_OTHER,
};

struct wakeup_key {
	enum sleep_cause cause;
	enum waker waker;
	__s32 syscall; /* the processor's number, -1 without one */
};

struct wakeup_count {
	__u64 wakeups;
};

/* Room for each system call and waker: it cannot overflow. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct wakeup_key);
	__type(value, struct wakeup_count);
} felix_wakeups SEC(".maps");

/* bpf_task_pt_regs exists (Linux 5.15); without it the cause is unknown. */
const volatile bool task_regs = true;

static __always_inline enum sleep_cause cause_of(__s32 nr)
{
	switch (nr) {
	case -1:
		return SLEEP_NO_SYSCALL;
	case NR_epoll_wait:
	case NR_epoll_pwait:
	case NR_epoll_pwait2:
		return SLEEP_EPOLL;
	case NR_futex:
		return SLEEP_FUTEX;
	case NR_nanosleep:
	case NR_clock_nanosleep:
		return SLEEP_TIMER;
	case NR_recvfrom:
	case NR_recvmsg:
	case NR_recvmmsg:
		return SLEEP_RECEIVE;
	case NR_sendto:
	case NR_sendmsg:
	case NR_sendmmsg:
		return SLEEP_SEND;
	case NR_read:
	case NR_write:
	case NR_fsync:
	case NR_fdatasync:
		return SLEEP_FILE;
	case NR_poll:
	case NR_ppoll:
	case NR_select:
	case NR_pselect6:
		return SLEEP_POLL;
	}
	return SLEEP_OTHER;
}

/*
 * sched_waking runs on the waker's CPU; sched_wakeup may run on the CPU where
 * the thread will go on, and would not know the waker.
 */
SEC("tp_btf/sched_waking")
int BPF_PROG(felix_waking, struct task_struct *p)
{
	struct wakeup_key key = { .cause = SLEEP_UNKNOWN, .syscall = -1 };
	struct wakeup_count first = { .wakeups = 1 }, *found;

	if ((__u32)p->tgid != own_tgid)
		return 0;
	if (task_regs) {
		struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(p);

		key.syscall = sleeping_in(regs);
		key.cause = cause_of(key.syscall);
	}
	key.waker = own() ? WAKER_SELF : WAKER_OTHER;

	found = bpf_map_lookup_elem(&felix_wakeups, &key);
	if (!found) {
		if (!bpf_map_update_elem(&felix_wakeups, &key, &first, BPF_NOEXIST))
			return 0;
		/* Another CPU was first. */
		found = bpf_map_lookup_elem(&felix_wakeups, &key);
		if (!found)
			return 0;
	}
	count(&found->wakeups, 1);
	return 0;
}

#endif
