package bpf

import "golang.org/x/sys/unix"

// archSyscallNames are calls that newer processors do not have.
var archSyscallNames = map[int32]string{
	unix.SYS_POLL: "poll", unix.SYS_SELECT: "select", unix.SYS_EPOLL_WAIT: "epoll_wait", unix.SYS_PAUSE: "pause",
}
