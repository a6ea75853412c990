package udp

import "syscall"

// verdict is what a refused message calls for.
type verdict uint8

const (
	ended     verdict = iota // the error ends the call and is returned
	smaller                  // the same bytes again in smaller messages
	again                    // the same message once more
	tooLarge                 // returned to the caller as EMSGSIZE, the rest goes on
	blameless                // lost, and segmentation was not the cause
	lost                     // given up, left to loss recovery
)

// judge decides what a refused message calls for.
//
// Three answers mean "not like this" for an aggregate: EMSGSIZE (over the
// kernel's 64 KiB, or a segment over the MTU), EINVAL (too many segments, and on
// kernels until early 2025 also a segment over the MTU) and EIO (a device
// without checksum offload). A single datagram that is too large is the caller's
// to know about: path MTU discovery learns from it. Everything else that the
// network or the host's configuration may cause is a lost packet, for a QUIC
// session survives those and does not survive an error from a send.
func judge(errno syscall.Errno, m *outgoing) verdict {
	switch errno {
	case syscall.EMSGSIZE, syscall.EINVAL, syscall.EIO:
		switch {
		case m.segment != 0:
			return smaller
		case errno == syscall.EMSGSIZE:
			return tooLarge
		case m.suspect:
			return blameless
		}
		return lost
	case syscall.ENOBUFS, syscall.ENOMEM:
		return lost // another try now would meet the same full queue
	}
	if !passing(errno) {
		return ended
	}
	// A firewall's first EPERM passes by itself, a signal does, and an ICMP
	// error that an earlier packet brought about is reported once, to whichever
	// send comes next.
	if !m.retried {
		return again
	}
	return lost
}

// passing reports whether an errno is about the network rather than about the
// call: it may be gone with the next packet or the next destination.
func passing(errno syscall.Errno) bool {
	switch errno {
	case syscall.EPERM, syscall.EACCES, syscall.EINTR,
		syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ENETDOWN, syscall.EHOSTDOWN,
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ENOPROTOOPT, syscall.EPROTO,
		syscall.EADDRNOTAVAIL, syscall.ENODEV, syscall.ENXIO, syscall.ETIMEDOUT:
		return true
	}
	return false
}
