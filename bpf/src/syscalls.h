/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/* System-call numbers and saved registers of the two processors. */
#ifndef FELIX_SYSCALLS_H
#define FELIX_SYSCALLS_H

#if defined(__TARGET_ARCH_x86)

enum {
	NR_read = 0,
	NR_write = 1,
	NR_poll = 7,
	NR_select = 23,
	NR_nanosleep = 35,
	NR_sendto = 44,
	NR_recvfrom = 45,
	NR_sendmsg = 46,
	NR_recvmsg = 47,
	NR_fsync = 74,
	NR_fdatasync = 75,
	NR_futex = 202,
	NR_clock_nanosleep = 230,
	NR_epoll_wait = 232,
	NR_pselect6 = 270,
	NR_ppoll = 271,
	NR_epoll_pwait = 281,
	NR_recvmmsg = 299,
	NR_sendmmsg = 307,
	NR_epoll_pwait2 = 441,
};

/*
 * The number of the system call that a thread is in, or -1. On entry from an
 * exception orig_ax is the error code; only a system call stores -ENOSYS (-38)
 * in ax until it returns.
 */
#define sleeping_in(regs) ((long)(regs)->ax == -38 ? (__s32)(regs)->orig_ax : -1)

/* The number of the system call that just ended; ax is its result by now. */
#define ended_call(regs) ((__s32)(regs)->orig_ax)

#define ARG0(regs) ((regs)->di)
#define ARG1(regs) ((regs)->si)
#define ARG2(regs) ((regs)->dx)
#define ARG3(regs) ((regs)->r10)
#define ARG4(regs) ((regs)->r8)
#define ARG5(regs) ((regs)->r9)

#elif defined(__TARGET_ARCH_arm64)

enum {
	NR_read = 63,
	NR_write = 64,
	NR_pselect6 = 72,
	NR_ppoll = 73,
	NR_fsync = 82,
	NR_fdatasync = 83,
	NR_epoll_pwait = 22,
	NR_futex = 98,
	NR_nanosleep = 101,
	NR_clock_nanosleep = 115,
	NR_sendto = 206,
	NR_recvfrom = 207,
	NR_sendmsg = 211,
	NR_recvmsg = 212,
	NR_recvmmsg = 243,
	NR_sendmmsg = 269,
	NR_epoll_pwait2 = 441,
	/* Calls that this processor never had; no number matches. */
	NR_poll = -2,
	NR_select = -3,
	NR_epoll_wait = -4,
};

#define sleeping_in(regs) ((regs)->syscallno)
#define ended_call(regs) ((regs)->syscallno)

/* The result replaces regs[0]; the first argument is kept apart. */
#define ARG0(regs) ((regs)->orig_x0)
#define ARG1(regs) ((regs)->regs[1])
#define ARG2(regs) ((regs)->regs[2])
#define ARG3(regs) ((regs)->regs[3])
#define ARG4(regs) ((regs)->regs[4])
#define ARG5(regs) ((regs)->regs[5])

#endif

#endif
