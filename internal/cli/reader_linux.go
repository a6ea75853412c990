package cli

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// watchReader calls gone once nobody can read any more what is written to out,
// if out is a pipe or a socket; a write would fail, but a program that waits for
// something to write would never learn it. It does so until stop is called,
// which waits for the watcher's end.
func watchReader(out any, gone func()) (stop func()) {
	f, ok := out.(*os.File)
	if !ok {
		return func() {}
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return func() {}
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return func() {}
	}
	wakeRead, wake, err := os.Pipe()
	if err != nil {
		return func() {} // without a watcher the next write tells
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// A failure leaves it to the next write, like the failures above.
		_ = raw.Control(func(fd uintptr) {
			if pollGone(int(fd), int(wakeRead.Fd())) {
				gone()
			}
		})
	}()
	return func() {
		_ = wake.Close() // wakes the watcher
		<-done
		_ = wakeRead.Close()
	}
}

// pollGone waits until the reader of fd is gone, which it reports as true, or
// the other end of wake is closed.
func pollGone(fd, wake int) bool {
	for {
		// Errors and hang-ups are reported without being asked for.
		fds := []unix.PollFd{{Fd: int32(fd)}, {Fd: int32(wake)}}
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || fds[1].Revents != 0:
			return false
		case fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0:
			return true
		case fds[0].Revents != 0:
			return false
		}
	}
}
