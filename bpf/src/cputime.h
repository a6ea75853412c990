/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/* How long our threads wait for a CPU, run, and sleep. */
#ifndef FELIX_CPUTIME_H
#define FELIX_CPUTIME_H

struct cpu_time {
	struct histogram run_queue;
	struct histogram on_cpu;
	struct histogram asleep;
	__u64 preemptions; /* a thread that could go on had to leave its CPU */
	__u64 untracked; /* threads that found the table full */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu_time);
} felix_cpu SEC(".maps");

/*
 * One thread. The times are of CLOCK_MONOTONIC, 0 when the thread is not in
 * that state. One event of a thread follows another under its run queue's
 * lock, so nothing here is atomic.
 */
struct thread {
	__u64 ready_at_ns; /* waits for a CPU since */
	__u64 running_at_ns; /* runs since */
	__u64 asleep_at_ns; /* sleeps since */
	__u64 run_queue_ns;
	__u64 on_cpu_ns;
	__u64 asleep_ns;
	__u64 runs;
	__u64 preemptions;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2048);
	__type(key, __u32); /* the thread's id in the first PID namespace */
	__type(value, struct thread);
} felix_threads SEC(".maps");

static __always_inline struct cpu_time *cpu_time(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&felix_cpu, &zero);
}

/* The thread's entry, made if need be. A thread on its way out gets none. */
static __always_inline struct thread *thread_of(struct task_struct *p)
{
	static const struct thread fresh;
	__u32 tid = p->pid;
	struct thread *t = bpf_map_lookup_elem(&felix_threads, &tid);

	if (t || p->flags & PF_EXITING)
		return t;
	if (bpf_map_update_elem(&felix_threads, &tid, &fresh, BPF_NOEXIST)) {
		struct cpu_time *c = cpu_time();

		if (c)
			count(&c->untracked, 1);
		return 0;
	}
	return bpf_map_lookup_elem(&felix_threads, &tid);
}

static __always_inline bool can_run(struct task_struct *p)
{
	struct task_struct___v513 *old = (void *)p;

	if (bpf_core_field_exists(old->state))
		return BPF_CORE_READ(old, state) == 0;
	return p->__state == 0;
}

static __always_inline void became_ready(struct task_struct *p)
{
	struct thread *t;
	struct cpu_time *c;
	__u64 now;

	if ((__u32)p->tgid != own_tgid)
		return;
	t = thread_of(p);
	c = cpu_time();
	if (!t || !c)
		return;
	now = bpf_ktime_get_ns();
	t->ready_at_ns = now;
	if (t->asleep_at_ns) {
		record(&c->asleep, now - t->asleep_at_ns);
		t->asleep_ns += now - t->asleep_at_ns;
		t->asleep_at_ns = 0;
	}
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(felix_wakeup, struct task_struct *p)
{
	became_ready(p);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(felix_wake_new, struct task_struct *p)
{
	became_ready(p);
	return 0;
}

static __always_inline void leaves_cpu(struct task_struct *p, struct cpu_time *c, __u64 now)
{
	__u32 tid = p->pid;
	struct thread *t = bpf_map_lookup_elem(&felix_threads, &tid);

	if (!t) /* not seen yet: it was running when the probe came */
		t = thread_of(p);
	if (!t)
		return;
	if (t->running_at_ns) {
		record(&c->on_cpu, now - t->running_at_ns);
		t->on_cpu_ns += now - t->running_at_ns;
		t->running_at_ns = 0;
	}
	/*
	 * A wakeup that came while the thread was still running has left a
	 * stamp; only the way it leaves counts.
	 */
	if (can_run(p)) {
		t->ready_at_ns = now;
		t->asleep_at_ns = 0;
		t->preemptions++;
		count(&c->preemptions, 1);
	} else {
		t->ready_at_ns = 0;
		t->asleep_at_ns = now;
	}
}

static __always_inline void gets_cpu(struct task_struct *p, struct cpu_time *c, __u64 now)
{
	struct thread *t = thread_of(p);

	if (!t)
		return;
	if (t->ready_at_ns) {
		record(&c->run_queue, now - t->ready_at_ns);
		t->run_queue_ns += now - t->ready_at_ns;
		t->ready_at_ns = 0;
	}
	t->asleep_at_ns = 0;
	t->running_at_ns = now;
	t->runs++;
}

/* The tracepoint has a fourth argument since 5.18; three are enough. */
SEC("tp_btf/sched_switch")
int BPF_PROG(felix_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	bool leaves = (__u32)prev->tgid == own_tgid, gets = (__u32)next->tgid == own_tgid;
	struct cpu_time *c;
	__u64 now;

	if (!leaves && !gets)
		return 0;
	c = cpu_time();
	if (!c)
		return 0;
	now = bpf_ktime_get_ns();
	if (leaves)
		leaves_cpu(prev, c, now);
	if (gets)
		gets_cpu(next, c, now);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(felix_exit, struct task_struct *p)
{
	__u32 tid = p->pid;

	if ((__u32)p->tgid == own_tgid)
		bpf_map_delete_elem(&felix_threads, &tid);
	return 0;
}

#endif
