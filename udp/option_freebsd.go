package udp

import "golang.org/x/sys/unix"

var hostPolicy = plainPolicy

var optionCodes = [numOptions]optionCode{
	optReadBuffer:       {unix.SOL_SOCKET, unix.SO_RCVBUF, 0},
	optWriteBuffer:      {unix.SOL_SOCKET, unix.SO_SNDBUF, 0},
	optForceReadBuffer:  lacking,
	optForceWriteBuffer: lacking,
	optSegment:          lacking,
	optCoalesce:         lacking,
	optOverflow:         lacking,
	optTOS:              {unix.IPPROTO_IP, unix.IP_RECVTOS, 1},
	optTClass:           {unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1},
	optPacketInfo4:      {unix.IPPROTO_IP, unix.IP_RECVDSTADDR, 1},
	optPacketInfo6:      {unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1},
	optDontFragment4:    {unix.IPPROTO_IP, unix.IP_DONTFRAG, 1},
	optDontFragment6:    {unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, 1},
	optOnlyV6:           {unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0},
}

func (s socketOptions) dropped() (uint32, bool) { return 0, false }
