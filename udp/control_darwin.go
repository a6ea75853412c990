package udp

import "golang.org/x/sys/unix"

// tosSize is the size of the IP_TOS message on a send.
const tosSize = 4 // an int

// segmentControl: this system does not segment.
var segmentControl = lacking

func kindOfControl(level, typ int) controlKind {
	switch {
	case level == unix.IPPROTO_IP && (typ == unix.IP_TOS || typ == unix.IP_RECVTOS),
		level == unix.IPPROTO_IPV6 && typ == unix.IPV6_TCLASS:
		return ecnControl
	}
	return otherControl
}
