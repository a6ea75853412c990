package platform

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

var (
	udpSegment  = &cachedProbe{run: onSocket("UDP_SEGMENT", probeSegment)}
	udpGRO      = &cachedProbe{run: onSocket("UDP_GRO", probeGRO)}
	bufferForce = &cachedProbe{run: onSocket("SO_RCVBUFFORCE", probeForce)}
	sendMMsg    = &cachedProbe{run: onSocket("sendmmsg", probeMMsg("sendmmsg", unix.SYS_SENDMMSG))}
	recvMMsg    = &cachedProbe{run: onSocket("recvmmsg", probeMMsg("recvmmsg", unix.SYS_RECVMMSG))}
)

// onSocket runs a probe on a UDP socket of its own. Without a socket nothing
// can be told.
func onSocket(what string, probe func(fd int) Feature) func() Feature {
	return func() Feature {
		fd, err := udpSocket()
		if err != nil {
			return unknown(what+" could not be tried: socket", err)
		}
		defer closeProbe(fd)
		return probe(fd)
	}
}

// closeProbe closes a socket that was opened to ask the kernel something; there
// is nothing to lose by a failure.
func closeProbe(fd int) { _ = unix.Close(fd) }

func udpSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if errors.Is(err, unix.EAFNOSUPPORT) {
		return unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	}
	return fd, err
}

func probeSegment(fd int) Feature { return tryOption(fd, "UDP_SEGMENT", unix.UDP_SEGMENT, 1200) }

func probeGRO(fd int) Feature { return tryOption(fd, "UDP_GRO", unix.UDP_GRO, 1) }

// tryOption sets a UDP option and reads it back.
func tryOption(fd int, name string, option, value int) Feature {
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_UDP, option, value); err != nil {
		return judge(name+" was refused", err)
	}
	got, err := unix.GetsockoptInt(fd, unix.IPPROTO_UDP, option)
	if err != nil {
		return judge(name+" was set but cannot be read", err)
	}
	if got != value {
		return no(fmt.Sprintf("%s: set %d, reads %d", name, value, got), nil)
	}
	return yes(name + " was accepted")
}

// probeForce asks for the size the buffer has already, so that only the right
// is tested.
func probeForce(fd int) Feature {
	size, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		return unknown("SO_RCVBUF cannot be read", err)
	}
	// The kernel doubles what it is given and reports the double.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, size/2); err != nil {
		if errors.Is(err, unix.EPERM) {
			return no("SO_RCVBUFFORCE needs CAP_NET_ADMIN", err)
		}
		return judge("SO_RCVBUFFORCE was refused", err)
	}
	return yes("SO_RCVBUFFORCE was accepted")
}

// probeMMsg calls with no messages: a kernel that knows the call returns 0.
func probeMMsg(name string, trap uintptr) func(fd int) Feature {
	return func(fd int) Feature {
		_, _, errno := unix.Syscall6(trap, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
		if errno != 0 {
			return judge(name+" failed", errno)
		}
		return yes(name + " was accepted")
	}
}

// judge tells a definite No from a failure that says nothing about the feature.
func judge(reason string, err error) Feature {
	switch {
	case errors.Is(err, unix.ENOPROTOOPT), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP):
		return no(reason, err)
	}
	return unknown(reason, err)
}

const (
	// oldSegmentLimit is the kernel's UDP_MAX_SEGMENTS before Linux 6.9 and
	// the stable releases of April 2024 (commit 1382e3b6a350).
	oldSegmentLimit = 64
	// newSegmentLimit is UDP_MAX_SEGMENTS since.
	newSegmentLimit = 128
)

var segmentLimit struct {
	mu   sync.Mutex
	last Feature
	n    int
}

func udpSegmentLimit() (int, Feature) {
	s := &segmentLimit
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.Answer == Unknown {
		s.n, s.last = probeSegmentLimit(UDPSegment(), sendSegments)
	}
	return s.n, s.last
}

// probeSegmentLimit decides by one send of 65 segments.
func probeSegmentLimit(segment Feature, send func(segments int) error) (int, Feature) {
	switch segment.Answer {
	case No:
		return 1, segment
	case Unknown:
		return oldSegmentLimit, segment
	}
	err := send(oldSegmentLimit + 1)
	switch {
	case err == nil:
		return newSegmentLimit, yes("65 segments in one send were accepted")
	case errors.Is(err, unix.EINVAL):
		// The option works, the number is the old one.
		return oldSegmentLimit, yes("65 segments in one send were refused: " + err.Error())
	case errors.Is(err, unix.EIO):
		return 1, no("segmented sends fail over loopback", err)
	}
	return oldSegmentLimit, unknown("65 segments in one send failed", err)
}

// sendSegments sends that many one-byte segments to a socket of its own over
// loopback, IPv4 first.
func sendSegments(segments int) error {
	err := sendSegmentsTo(unix.AF_INET, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}, segments)
	if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL) {
		return sendSegmentsTo(unix.AF_INET6, &unix.SockaddrInet6{Addr: [16]byte{15: 1}}, segments)
	}
	return err
}

func sendSegmentsTo(family int, loopback unix.Sockaddr, segments int) error {
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer closeProbe(fd)
	if err := unix.Bind(fd, loopback); err != nil {
		return os.NewSyscallError("bind", err)
	}
	self, err := unix.Getsockname(fd)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	return os.NewSyscallError("sendto", unix.Sendto(fd, make([]byte, segments), 0, self))
}
