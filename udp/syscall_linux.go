package udp

import (
	"syscall"
	"unsafe"
)

// bulkBytes separates calls that carry much from those that carry a packet or
// two.
const bulkBytes = 8 << 10

// isBulk reports whether a call for so many bytes is made without telling the
// scheduler. narrow says that the program had one P when the socket was opened,
// so that giving it away during a call lets nobody else in who could not wait a
// few microseconds.
func isBulk(narrow bool, bytes int) bool { return narrow || bytes >= bulkBytes }

// call makes a system call that does not wait.
//
// In bulk it is made without telling Go's scheduler. Told, the scheduler takes
// the P from a call that takes longer than 20 us, as a 64 KiB aggregate over
// loopback does, and the goroutine queues for one afterwards; in QUIC transfers
// of 150 to 300 MB that cost 30 to 60 % more context switches and 10 to 30 %
// more processor time. With several Ps and few bytes it is the other way round:
// a goroutine woken by the one that makes the call starts sooner on the other P,
// 20 us of a round trip of 65.
func call(bulk bool, number, fd uintptr, p unsafe.Pointer, a, b int) (int, syscall.Errno) {
	var r uintptr
	var errno syscall.Errno
	if bulk {
		r, _, errno = syscall.RawSyscall6(number, fd, uintptr(p), uintptr(a), uintptr(b), 0, 0)
	} else {
		r, _, errno = syscall.Syscall6(number, fd, uintptr(p), uintptr(a), uintptr(b), 0, 0)
	}
	return int(r), errno
}
