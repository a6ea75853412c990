//go:build linux || darwin || freebsd

package udp

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// socketOptions are the options of a real socket.
type socketOptions struct{ raw syscall.RawConn }

func newOptions(raw syscall.RawConn) options { return socketOptions{raw} }

func (s socketOptions) set(o option, value int) error {
	code, err := codeOf(o)
	if err != nil {
		return err
	}
	var inner error
	err = s.raw.Control(func(fd uintptr) {
		inner = os.NewSyscallError("setsockopt", unix.SetsockoptInt(int(fd), code.level, code.name, value))
	})
	if err != nil {
		return err
	}
	return inner
}

func (s socketOptions) get(o option) (int, error) {
	code, err := codeOf(o)
	if err != nil {
		return 0, err
	}
	var value int
	var inner error
	err = s.raw.Control(func(fd uintptr) {
		value, inner = unix.GetsockoptInt(int(fd), code.level, code.name)
		inner = os.NewSyscallError("getsockopt", inner)
	})
	if err != nil {
		return 0, err
	}
	return value, inner
}
