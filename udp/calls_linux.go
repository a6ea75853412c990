package udp

import (
	"net"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"felix/platform"
)

// mmsghdr mirrors
//
//	struct mmsghdr {
//	    struct msghdr msg_hdr;
//	    unsigned int  msg_len;
//	};
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
}

const (
	msgTrunc  = unix.MSG_TRUNC
	msgCtrunc = unix.MSG_CTRUNC
)

func trySendMMsg() error { return noError(platform.SendMMsg()) }
func tryRecvMMsg() error { return noError(platform.RecvMMsg()) }

// noError returns the reason for a definite No. A feature that could not be
// probed is tried.
func noError(f platform.Feature) error {
	if f.Answer == platform.No {
		return f.Err
	}
	return nil
}

func newSystem(_ *net.UDPConn, raw syscall.RawConn, v6 bool, caps Capabilities) system {
	narrow := runtime.GOMAXPROCS(0) == 1
	return system{
		newSender: func() sender { return newLinuxSender(raw, v6, caps.SendMMsg.Active, narrow) },
		newReceiver: func(slots []incoming) receiver {
			return newLinuxReceiver(raw, slots, caps.RecvMMsg.Active, narrow)
		},
	}
}

// linuxSender sends with sendmmsg, or sendmsg for a single message and where
// the other is switched off.
type linuxSender struct {
	raw    syscall.RawConn
	v6     bool
	multi  bool
	narrow bool // see isBulk
	zones  zones

	hdrs    [maxMessages]mmsghdr
	names   [maxMessages]unix.RawSockaddrInet6
	iovs    []unix.Iovec
	control []byte

	// One attempt: hdrs[from:to] are to be sent.
	from, to int
	bulk     bool
	calls    int
	waits    int
	sent     int
	errno    syscall.Errno
	try      func(fd uintptr)
	tryWait  func(fd uintptr) bool
}

func newLinuxSender(raw syscall.RawConn, v6, multi, narrow bool) *linuxSender {
	s := &linuxSender{
		raw: raw, v6: v6, multi: multi, narrow: narrow,
		iovs:    make([]unix.Iovec, 0, window),
		control: make([]byte, 0, maxMessages*64),
	}
	s.try = s.attempt
	s.tryWait = func(fd uintptr) bool {
		s.attempt(fd)
		return s.errno != syscall.EAGAIN
	}
	return s
}

func (s *linuxSender) send(ms []outgoing) (accepted, calls, waits int, err error) {
	ms = ms[:min(len(ms), maxMessages)]
	s.prepare(ms)
	s.from, s.to, s.calls, s.waits = 0, len(ms), 0, 0
	s.bulk = isBulk(s.narrow, ms[0].bytes*len(ms))
	for s.from < s.to && err == nil {
		err = s.transmit()
	}
	runtime.KeepAlive(ms)
	s.release(len(ms))
	return s.from, s.calls, s.waits, err
}

// transmit makes one successful attempt, waiting for room if need be.
func (s *linuxSender) transmit() error {
	// The first attempt needs no lock: datagrams of other goroutines may leave
	// at the same time. Only a full buffer makes them queue up.
	if err := s.raw.Control(s.try); err != nil {
		return err
	}
	if s.errno == syscall.EAGAIN {
		s.waits++
		if err := s.raw.Write(s.tryWait); err != nil {
			return err
		}
	}
	if s.errno != 0 {
		return s.errno
	}
	s.from += s.sent
	return nil
}

// attempt is one system call.
func (s *linuxSender) attempt(fd uintptr) {
	s.calls++
	hdr := &s.hdrs[s.from]
	if n := s.to - s.from; s.multi && n > 1 {
		s.sent, s.errno = call(s.bulk, unix.SYS_SENDMMSG, fd, unsafe.Pointer(hdr), n, 0)
		return
	}
	_, s.errno = call(s.bulk, unix.SYS_SENDMSG, fd, unsafe.Pointer(&hdr.hdr), 0, 0)
	s.sent = 1
}

// prepare fills in the headers. The caller's memory is referred to, not copied.
func (s *linuxSender) prepare(ms []outgoing) {
	s.iovs, s.control = s.iovs[:0], s.control[:0]
	for i := range ms {
		m := &ms[i]
		h := &s.hdrs[i].hdr
		h.Name = (*byte)(unsafe.Pointer(&s.names[i]))
		h.Namelen = putSockaddr(&s.names[i], s.v6, m.to, &s.zones)
		vectors := s.gather(m.data)
		h.Iov = &vectors[0]
		h.SetIovlen(len(vectors))
		h.Control, h.Flags = nil, 0
		h.SetControllen(0)
		if len(m.control) > 0 || m.segment != 0 {
			s.attach(h, m)
		}
	}
}

// gather appends the datagrams as I/O vectors and returns these; neighbours in
// memory share one. The array must not move once a header points at it, so that
// vectors for which there is no room go to a new one.
func (s *linuxSender) gather(data [][]byte) []unix.Iovec {
	if len(s.iovs)+len(data) > cap(s.iovs) {
		s.iovs = make([]unix.Iovec, 0, max(window, len(data)))
	}
	first := len(s.iovs)
	var end uintptr // an address for comparison only
	for i, d := range data {
		at := uintptr(unsafe.Pointer(unsafe.SliceData(d)))
		if i > 0 && at == end {
			last := &s.iovs[len(s.iovs)-1]
			last.SetLen(int(last.Len) + len(d))
		} else {
			v := unix.Iovec{Base: unsafe.SliceData(d)}
			v.SetLen(len(d))
			s.iovs = append(s.iovs, v)
		}
		end = at + uintptr(len(d))
	}
	return s.iovs[first:]
}

// attach gives a header its control data: the caller's and the segment size.
func (s *linuxSender) attach(h *unix.Msghdr, m *outgoing) {
	if m.segment == 0 {
		h.Control = unsafe.SliceData(m.control)
		h.SetControllen(len(m.control))
		return
	}
	if cap(s.control)-len(s.control) < len(m.control)+unix.CmsgSpace(2) {
		s.control = make([]byte, 0, max(maxMessages*64, 2*(len(m.control)+unix.CmsgSpace(2))))
	}
	at := len(s.control)
	s.control = AppendSegmentSize(append(s.control, m.control...), uint16(m.segment))
	h.Control = &s.control[at]
	h.SetControllen(len(s.control) - at)
}

// release lets go of the caller's memory.
func (s *linuxSender) release(n int) {
	clear(s.iovs)
	for i := range n {
		s.hdrs[i].hdr.Iov, s.hdrs[i].hdr.Control = nil, nil
	}
}

// linuxReceiver receives with recvmmsg, or recvmsg where that is switched off.
type linuxReceiver struct {
	raw    syscall.RawConn
	multi  bool
	narrow bool // see isBulk
	slots  []incoming
	hdrs   []mmsghdr
	names  []unix.RawSockaddrInet6
	iovs   []unix.Iovec

	calls, empty int
	got          int
	bulk         bool // the receive before brought much
	errno        syscall.Errno
	try          func(fd uintptr) bool
}

func newLinuxReceiver(raw syscall.RawConn, slots []incoming, multi, narrow bool) *linuxReceiver {
	r := &linuxReceiver{
		raw: raw, multi: multi && len(slots) > 1, narrow: narrow, slots: slots,
		hdrs:  make([]mmsghdr, len(slots)),
		names: make([]unix.RawSockaddrInet6, len(slots)),
		iovs:  make([]unix.Iovec, len(slots)),
	}
	for i := range slots {
		r.iovs[i].Base = unsafe.SliceData(slots[i].buf)
		r.iovs[i].SetLen(len(slots[i].buf))
		h := &r.hdrs[i].hdr
		h.Name = (*byte)(unsafe.Pointer(&r.names[i]))
		h.Iov = &r.iovs[i]
		h.SetIovlen(1)
		h.Control = unsafe.SliceData(slots[i].control)
	}
	r.reset(len(slots))
	r.try = r.attempt
	return r
}

// reset makes the first n headers ready for the next receive.
func (r *linuxReceiver) reset(n int) {
	for i := range n {
		h := &r.hdrs[i].hdr
		h.Namelen = unix.SizeofSockaddrInet6
		h.SetControllen(len(r.slots[i].control))
		h.Flags = 0
	}
}

func (r *linuxReceiver) receive() (n, calls, empty int, err error) {
	r.calls, r.empty, r.got, r.errno = 0, 0, 0, 0
	if err := r.raw.Read(r.try); err != nil {
		return 0, r.calls, r.empty, err
	}
	if r.errno != 0 {
		r.reset(1)
		return 0, r.calls, r.empty, r.errno
	}
	bytes := 0
	for i := range r.got {
		bytes += r.deliver(i)
	}
	r.bulk = isBulk(r.narrow, bytes)
	r.reset(r.got)
	return r.got, r.calls, r.empty, nil
}

// attempt is one system call; false means that there was nothing to receive.
func (r *linuxReceiver) attempt(fd uintptr) bool {
	r.calls++
	n := 1
	if r.multi {
		n, r.errno = call(r.bulk, unix.SYS_RECVMMSG, fd, unsafe.Pointer(&r.hdrs[0]), len(r.hdrs), unix.MSG_DONTWAIT)
	} else {
		var size int
		size, r.errno = call(r.bulk, unix.SYS_RECVMSG, fd, unsafe.Pointer(&r.hdrs[0].hdr), unix.MSG_DONTWAIT, 0)
		r.hdrs[0].len = uint32(max(size, 0))
	}
	switch r.errno {
	case 0:
		r.got = n
	case syscall.EAGAIN:
		r.empty++
		r.errno = 0
		return false
	}
	return true
}

// deliver translates what the kernel wrote and returns the bytes of the message.
func (r *linuxReceiver) deliver(i int) int {
	h, s := &r.hdrs[i], &r.slots[i]
	s.n = int(h.len)
	s.nn = int(h.hdr.Controllen)
	s.truncated = h.hdr.Flags&unix.MSG_TRUNC != 0
	s.ctrunc = h.hdr.Flags&unix.MSG_CTRUNC != 0
	s.from = sourceOf(&r.names[i])
	return s.n
}
