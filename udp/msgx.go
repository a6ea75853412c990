//go:build linux || darwin

package udp

import (
	"errors"
	"net"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file is the batched system calls of macOS, which no header of the SDK
// declares. It is compiled on Linux too, where the tests put a fake kernel under
// it.

// msghdrX mirrors, for 64-bit systems,
//
//	struct msghdr_x {
//	    void         *msg_name;
//	    socklen_t     msg_namelen;
//	    struct iovec *msg_iov;
//	    int           msg_iovlen;
//	    void         *msg_control;
//	    socklen_t     msg_controllen;
//	    int           msg_flags;
//	    size_t        msg_datalen;
//	};
//
// of bsd/sys/socket_private.h.
type msghdrX struct {
	name       *byte
	namelen    uint32
	_          uint32
	iov        *unix.Iovec
	iovlen     int32
	_          uint32
	control    *byte
	controllen uint32
	flags      int32
	datalen    uint64
}

// maxMessagesX bounds a batch: the kernel's limit is a setting
// (kern.ipc.somaxsendmsgx, somaxrecvmsgx), 100 and more by default.
const maxMessagesX = 32

// callX is sendmsg_x or recvmsg_x: it returns the number of messages.
type callX func(fd uintptr, hdrs *msghdrX, n int) (int, syscall.Errno)

// senderX sends with sendmsg_x.
type senderX struct {
	raw   syscall.RawConn
	v6    bool
	call  callX
	zones zones
	plain sender // for a system that turns out not to have the call

	hdrs  [maxMessagesX]msghdrX
	names [maxMessagesX]unix.RawSockaddrInet6
	iovs  [maxMessagesX]unix.Iovec

	n, sent, calls, waits int
	errno                 syscall.Errno
	lacking               bool
	try                   func(fd uintptr)
	tryWait               func(fd uintptr) bool
}

func newSenderX(raw syscall.RawConn, v6 bool, call callX, plain sender) *senderX {
	s := &senderX{raw: raw, v6: v6, call: call, plain: plain}
	s.try = func(fd uintptr) {
		s.calls++
		s.sent, s.errno = s.call(fd, &s.hdrs[0], s.n)
	}
	s.tryWait = func(fd uintptr) bool {
		s.try(fd)
		return s.errno != syscall.EAGAIN
	}
	return s
}

func (s *senderX) send(ms []outgoing) (accepted, calls, waits int, err error) {
	if s.lacking {
		return s.plain.send(ms)
	}
	ms = ms[:min(len(ms), maxMessagesX)]
	for i := range ms {
		m, h := &ms[i], &s.hdrs[i]
		s.iovs[i].Base = unsafe.SliceData(m.data[0])
		s.iovs[i].SetLen(len(m.data[0]))
		*h = msghdrX{
			name:    (*byte)(unsafe.Pointer(&s.names[i])),
			namelen: putSockaddr(&s.names[i], s.v6, m.to, &s.zones),
			iov:     &s.iovs[i], iovlen: 1,
		}
		if len(m.control) > 0 {
			h.control, h.controllen = unsafe.SliceData(m.control), uint32(len(m.control))
		}
	}
	s.n, s.sent, s.calls, s.waits, s.errno = len(ms), 0, 0, 0, 0
	err = s.transmit()
	runtime.KeepAlive(ms)
	clear(s.hdrs[:len(ms)])
	clear(s.iovs[:len(ms)])
	if s.lacking {
		accepted, calls, waits, err = s.plain.send(ms)
		return accepted, calls + s.calls, waits, err
	}
	return s.sent, s.calls, s.waits, err
}

func (s *senderX) transmit() error {
	if err := s.raw.Control(s.try); err != nil {
		return err
	}
	if s.errno == syscall.EAGAIN {
		s.waits++
		if err := s.raw.Write(s.tryWait); err != nil {
			return err
		}
	}
	switch s.errno {
	case 0:
		return nil
	case syscall.ENOSYS, syscall.EOPNOTSUPP:
		s.sent, s.lacking = 0, true
		return nil
	}
	s.sent = max(s.sent, 0)
	return s.errno
}

// receiverX receives with recvmsg_x.
type receiverX struct {
	raw   syscall.RawConn
	call  callX
	slots []incoming
	plain receiver // for a system that turns out not to have the call

	hdrs  [maxMessagesX]msghdrX
	names [maxMessagesX]unix.RawSockaddrInet6
	iovs  [maxMessagesX]unix.Iovec

	got, calls, empty int
	errno             syscall.Errno
	lacking           bool
	try               func(fd uintptr) bool
}

func newReceiverX(raw syscall.RawConn, slots []incoming, call callX, plain receiver) *receiverX {
	r := &receiverX{raw: raw, call: call, plain: plain, slots: slots[:min(len(slots), maxMessagesX)]}
	r.try = r.attempt
	for i := range r.slots {
		r.iovs[i].Base = unsafe.SliceData(r.slots[i].buf)
		r.iovs[i].SetLen(len(r.slots[i].buf))
	}
	return r
}

func (r *receiverX) receive() (n, calls, empty int, err error) {
	if r.lacking {
		return r.plain.receive()
	}
	for i := range r.slots {
		r.hdrs[i] = msghdrX{
			name: (*byte)(unsafe.Pointer(&r.names[i])), namelen: unix.SizeofSockaddrInet6,
			iov: &r.iovs[i], iovlen: 1,
			control: unsafe.SliceData(r.slots[i].control), controllen: uint32(len(r.slots[i].control)),
		}
	}
	r.got, r.calls, r.empty, r.errno = 0, 0, 0, 0
	if err := r.raw.Read(r.try); err != nil {
		return 0, r.calls, r.empty, err
	}
	switch {
	case r.errno == syscall.ENOSYS || r.errno == syscall.EOPNOTSUPP:
		r.lacking = true
		return r.plain.receive()
	case r.errno != 0:
		return 0, r.calls, r.empty, r.errno
	}
	for i := range r.got {
		h, s := &r.hdrs[i], &r.slots[i]
		s.n, s.nn = int(h.datalen), int(h.controllen)
		s.truncated = h.flags&msgTrunc != 0
		s.ctrunc = h.flags&msgCtrunc != 0
		s.from = sourceOf(&r.names[i])
	}
	return r.got, r.calls, r.empty, nil
}

func (r *receiverX) attempt(fd uintptr) bool {
	r.calls++
	r.got, r.errno = r.call(fd, &r.hdrs[0], len(r.slots))
	if r.errno == syscall.EAGAIN {
		r.empty++
		r.errno = 0
		return false
	}
	return true
}

// newSystemX is the system-call layer of macOS. Switched off, or where a call
// is missing, it is one datagram a call through package net.
func newSystemX(uc *net.UDPConn, raw syscall.RawConn, v6 bool, caps Capabilities, send, recv callX) system {
	return system{
		newSender: func() sender {
			p := plainSender{uc}
			if !caps.SendMMsg.Active {
				return p
			}
			return newSenderX(raw, v6, send, p)
		},
		newReceiver: func(slots []incoming) receiver {
			p := plainReceiver{uc, &slots[0]}
			if !caps.RecvMMsg.Active {
				return p
			}
			return newReceiverX(raw, slots, recv, p)
		},
	}
}

// probeX asks whether a batched call exists, with no messages on no socket: a
// kernel that has it complains about the descriptor or the arguments.
func probeX(call callX) error {
	_, errno := call(^uintptr(0), nil, 0)
	if errno == syscall.ENOSYS || errno == syscall.EOPNOTSUPP {
		return errors.Join(errNoBatch, errno)
	}
	return nil
}
