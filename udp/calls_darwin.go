package udp

import (
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	msgTrunc  = unix.MSG_TRUNC
	msgCtrunc = unix.MSG_CTRUNC
)

// The numbers of bsd/kern/syscalls.master, there since Darwin 14; this Go
// version needs Darwin 21.
const (
	sysRecvmsgX = 480
	sysSendmsgX = 481
)

func sendmsgX(fd uintptr, hdrs *msghdrX, n int) (int, syscall.Errno) {
	return rawX(sysSendmsgX, fd, hdrs, n)
}

func recvmsgX(fd uintptr, hdrs *msghdrX, n int) (int, syscall.Errno) {
	return rawX(sysRecvmsgX, fd, hdrs, n)
}

func rawX(number, fd uintptr, hdrs *msghdrX, n int) (int, syscall.Errno) {
	r, _, errno := syscall.Syscall6(number, fd, uintptr(unsafe.Pointer(hdrs)), uintptr(n), unix.MSG_DONTWAIT, 0, 0)
	return int(r), errno
}

func trySendMMsg() error { return probeX(sendmsgX) }
func tryRecvMMsg() error { return probeX(recvmsgX) }

func newSystem(uc *net.UDPConn, raw syscall.RawConn, v6 bool, caps Capabilities) system {
	return newSystemX(uc, raw, v6, caps, sendmsgX, recvmsgX)
}
