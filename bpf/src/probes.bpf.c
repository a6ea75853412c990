// SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only
/*
 * All BPF programs of Felix. The loader takes from this object only what a
 * metric needs, so that one that the kernel refuses does not touch another.
 */
#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "syscalls.h"
#include "common.h"
#include "socket.h"
#include "wakeups.h"
#include "cputime.h"
#include "sends.h"
#include "receives.h"
#include "gro.h"
#include "drops.h"

/* The kernel offers its tracing helpers to GPL-compatible programs only. */
char licence[] SEC("license") = "Dual MIT/GPL";

/*
 * Run once by the loader: the process's id in the first PID namespace, which
 * getpid does not tell inside another one.
 */
SEC("raw_tp")
int felix_self(void *ctx)
{
	return bpf_get_current_pid_tgid() >> 32;
}
