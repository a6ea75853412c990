package udp

import "net/netip"

// outgoing is one message for the kernel: a single datagram, or several of one
// size, the last of which may be shorter, with the segment option.
type outgoing struct {
	data    [][]byte // the datagrams, in the caller's memory
	bytes   int      // their sum
	segment int      // size the kernel cuts at, 0 for a single datagram
	to      netip.AddrPort
	control []byte // the caller's control data without a segment option

	level   level // how far the planning has backed off
	retried bool  // the one repetition is used up
	suspect bool  // a plain datagram of an aggregate that was refused
}

// sender is the system-call layer of sends. One sender serves one goroutine at
// a time; a socket may have several.
type sender interface {
	// send hands messages to the kernel in order. It returns how many were
	// accepted, how many system calls that took and how often it waited for
	// room. An error is about the first message that was not accepted; fewer
	// messages than given without an error is normal. It returns only after at
	// least one message was accepted or refused.
	send(ms []outgoing) (accepted, calls, waits int, err error)
}

// incoming is one message received from the kernel.
type incoming struct {
	buf     []byte // where the data was put, maxRead bytes
	control []byte // where the control data was put, controlRoom bytes

	n         int // bytes of buf
	nn        int // bytes of control
	truncated bool
	ctrunc    bool // the control data was cut off
	from      source
}

// source is the sender of a message, in the form that caches use as a key.
type source struct {
	addr  [16]byte // IPv4 as in RFC 4291 section 2.5.5.2
	scope uint32   // interface of a link-local address
	port  uint16
}

// receiver is the system-call layer of receives, bound to the slots it was made
// for. One goroutine at a time uses it.
type receiver interface {
	// receive waits until at least one message is there and fills slots from
	// the front. It returns how many it filled, how many system calls that took
	// and how many of them found nothing.
	receive() (n, calls, empty int, err error)
}

// system makes the layers of one socket. Tests replace it.
type system struct {
	newSender   func() sender
	newReceiver func(slots []incoming) receiver
}

const (
	// maxRead is the size of a receive buffer: no message of the kernel is
	// larger, coalesced or not.
	maxRead = 1 << 16
	// controlRoom holds all control data that this package asks for, twice.
	controlRoom = 384
	// maxMessages bounds one sendmmsg; the kernel takes at most 1024 (UIO_MAXIOV).
	maxMessages = 64
	// window bounds the datagrams planned at a time, and so the memory of a
	// send: 11 aggregates of 45 x 1452 bytes.
	window = 512
)
