package udp

import "net"

// plainSender sends one datagram a call through package net, on systems without
// anything better and where that is switched off.
type plainSender struct{ uc *net.UDPConn }

func (s plainSender) send(ms []outgoing) (accepted, calls, waits int, err error) {
	for i := range ms {
		if _, _, err := s.uc.WriteMsgUDPAddrPort(ms[i].data[0], ms[i].control, ms[i].to); err != nil {
			return i, i + 1, 0, err
		}
	}
	return len(ms), len(ms), 0, nil
}

// plainReceiver receives one datagram a call through package net.
type plainReceiver struct {
	uc   *net.UDPConn
	slot *incoming
}

func (r plainReceiver) receive() (n, calls, empty int, err error) {
	s := r.slot
	read, control, flags, from, err := r.uc.ReadMsgUDPAddrPort(s.buf, s.control)
	if err != nil {
		return 0, 1, 0, err
	}
	s.n, s.nn = read, control
	s.truncated, s.ctrunc = flags&msgTrunc != 0, flags&msgCtrunc != 0
	s.from = source{addr: from.Addr().As16(), scope: scopeOf(from.Addr().Zone()), port: from.Port()}
	return 1, 1, 0, nil
}
