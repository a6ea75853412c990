// Package bpf asks the kernel what happens to this process: who wakes its
// threads and out of which system call, how long they wait for a CPU, which
// sends the kernel refuses, how many datagrams a wakeup brings, and which
// datagrams were dropped for want of receive buffer.
//
// The answers come from small BPF programs on kernel tracepoints. Each metric
// attaches by itself: what the host cannot give (no right, no type
// information, an old kernel) is off, with a [Reason] that says what is missing
// and what to do, and the others work. [Open] therefore succeeds everywhere,
// on other systems than Linux as well, where every metric is off.
//
// Only this process is measured. The programs compare the process id that the
// kernel uses, which in a PID namespace is not the one that the process sees
// itself; receive-buffer drops happen on behalf of no process and are counted
// for the sockets given to [Probes.Watch].
//
// Nothing runs in the background: counters live in kernel maps, and
// [Probes.Snapshot] reads them. Links are never pinned, so the programs end
// with the process, however it ends.
//
// The programs are in src; `go generate ./bpf` compiles them. The result is
// committed, and building needs no C compiler.
package bpf
