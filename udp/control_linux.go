package udp

import "golang.org/x/sys/unix"

// tosSize is the size of the IP_TOS message on a send; either size is accepted.
const tosSize = 1

// segmentControl is the message that carries a segment size on a send.
var segmentControl = optionCode{level: unix.IPPROTO_UDP, name: unix.UDP_SEGMENT}

func kindOfControl(level, typ int) controlKind {
	switch level {
	case unix.IPPROTO_UDP:
		switch typ {
		case unix.UDP_GRO:
			return strideControl
		case unix.UDP_SEGMENT:
			return segmentSize
		}
	case unix.IPPROTO_IP:
		if typ == unix.IP_TOS {
			return ecnControl
		}
	case unix.IPPROTO_IPV6:
		if typ == unix.IPV6_TCLASS {
			return ecnControl
		}
	case unix.SOL_SOCKET:
		if typ == unix.SO_RXQ_OVFL {
			return dropsControl
		}
	}
	return otherControl
}
