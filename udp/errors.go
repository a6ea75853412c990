package udp

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"felix/platform"
)

var (
	// ErrFlags says that a batch call was given flags. Messages are rearranged
	// on their way to and from the system call, so its flags have no meaning.
	ErrFlags = fmt.Errorf("udp: message flags: %w", platform.ErrNotSupported)
	// ErrBuffers says that a message to send has not exactly one buffer.
	ErrBuffers = errors.New("udp: a message needs exactly one buffer")
	// ErrRawIO says that data was to be read or written beside the Conn through
	// its SyscallConn, which would take datagrams out of order.
	ErrRawIO = fmt.Errorf("udp: raw reads and writes: %w", platform.ErrNotSupported)
	// ErrAddress says that a destination is missing or not a UDP address.
	ErrAddress = errors.New("udp: no usable destination address")
	// ErrControl says that control data given to a send is malformed.
	ErrControl = errors.New("udp: malformed control data")

	errNoBatch = fmt.Errorf("batched system call: %w", platform.ErrNotSupported)
)

// SwitchError says that a feature is switched on and the host lacks it.
type SwitchError struct {
	Feature string // gso, gro, sendmmsg, recvmmsg, ecn or don't-fragment
	Reason  string // what the host said
}

func (e *SwitchError) Error() string {
	return fmt.Sprintf("%s is switched on, but: %s", e.Feature, e.Reason)
}

// Unwrap returns platform.ErrNotSupported.
func (e *SwitchError) Unwrap() error { return platform.ErrNotSupported }

// writeError gives an error of a send the form that package net gives it.
func (c *Conn) writeError(err error, to net.Addr) error {
	if errno, ok := err.(syscall.Errno); ok { //nolint:errorlint // as the system-call layer returned it
		err = os.NewSyscallError("sendmsg", errno)
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return err
	}
	return &net.OpError{Op: "write", Net: "udp", Source: c.LocalAddr(), Addr: to, Err: err}
}

// errnoOf returns the errno in err, 0 if it holds none.
func errnoOf(err error) syscall.Errno {
	if errno, ok := err.(syscall.Errno); ok { //nolint:errorlint // the usual case, without allocation
		return errno
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return 0
}
