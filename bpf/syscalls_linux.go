//go:build amd64 || arm64

package bpf

import (
	"maps"

	"golang.org/x/sys/unix"
)

// syscallNames names the system calls that a Go program may sleep in.
var syscallNames = func() map[int32]string {
	names := map[int32]string{
		unix.SYS_READ: "read", unix.SYS_WRITE: "write", unix.SYS_PREAD64: "pread64", unix.SYS_PWRITE64: "pwrite64",
		unix.SYS_READV: "readv", unix.SYS_WRITEV: "writev", unix.SYS_FSYNC: "fsync", unix.SYS_FDATASYNC: "fdatasync",
		unix.SYS_OPENAT: "openat", unix.SYS_CLOSE: "close", unix.SYS_UNLINKAT: "unlinkat", unix.SYS_RENAMEAT2: "renameat2",
		unix.SYS_FALLOCATE: "fallocate", unix.SYS_FTRUNCATE: "ftruncate", unix.SYS_GETDENTS64: "getdents64", unix.SYS_FLOCK: "flock",
		unix.SYS_PPOLL: "ppoll", unix.SYS_PSELECT6: "pselect6", unix.SYS_EPOLL_PWAIT: "epoll_pwait", unix.SYS_EPOLL_PWAIT2: "epoll_pwait2",
		unix.SYS_FUTEX: "futex", unix.SYS_NANOSLEEP: "nanosleep", unix.SYS_CLOCK_NANOSLEEP: "clock_nanosleep",
		unix.SYS_SCHED_YIELD: "sched_yield", unix.SYS_RT_SIGTIMEDWAIT: "rt_sigtimedwait", unix.SYS_RT_SIGSUSPEND: "rt_sigsuspend",
		unix.SYS_SENDTO: "sendto", unix.SYS_SENDMSG: "sendmsg", unix.SYS_SENDMMSG: "sendmmsg",
		unix.SYS_RECVFROM: "recvfrom", unix.SYS_RECVMSG: "recvmsg", unix.SYS_RECVMMSG: "recvmmsg",
		unix.SYS_ACCEPT4: "accept4", unix.SYS_CONNECT: "connect", unix.SYS_SETSOCKOPT: "setsockopt",
		unix.SYS_MMAP: "mmap", unix.SYS_MUNMAP: "munmap", unix.SYS_MPROTECT: "mprotect", unix.SYS_MADVISE: "madvise",
		unix.SYS_CLONE: "clone", unix.SYS_EXECVE: "execve", unix.SYS_WAIT4: "wait4", unix.SYS_WAITID: "waitid", unix.SYS_EXIT: "exit", unix.SYS_EXIT_GROUP: "exit_group",
		unix.SYS_BPF: "bpf", unix.SYS_MEMBARRIER: "membarrier", unix.SYS_IO_URING_ENTER: "io_uring_enter",
	}
	maps.Copy(names, archSyscallNames)
	return names
}()
