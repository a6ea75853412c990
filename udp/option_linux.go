package udp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

var hostPolicy = linuxPolicy

// optionCodes: with IP_PMTUDISC_PROBE datagrams are never fragmented and an ICMP
// message, which anyone can forge, never changes the path MTU.
var optionCodes = [numOptions]optionCode{
	optReadBuffer:       {unix.SOL_SOCKET, unix.SO_RCVBUF, 0},
	optWriteBuffer:      {unix.SOL_SOCKET, unix.SO_SNDBUF, 0},
	optForceReadBuffer:  {unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 0},
	optForceWriteBuffer: {unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 0},
	optSegment:          {unix.IPPROTO_UDP, unix.UDP_SEGMENT, 0},
	optCoalesce:         {unix.IPPROTO_UDP, unix.UDP_GRO, 1},
	optOverflow:         {unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1},
	optTOS:              {unix.IPPROTO_IP, unix.IP_RECVTOS, 1},
	optTClass:           {unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1},
	optPacketInfo4:      {unix.IPPROTO_IP, unix.IP_PKTINFO, 1},
	optPacketInfo6:      {unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1},
	optDontFragment4:    {unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE},
	optDontFragment6:    {unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE},
	optOnlyV6:           {unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0},
}

// dropped reads SO_MEMINFO, an array of u32 of which one is the socket's drops
// (enum in include/uapi/linux/sock_diag.h).
func (s socketOptions) dropped() (uint32, bool) {
	var info [unix.SK_MEMINFO_VARS]uint32
	size := uint32(unsafe.Sizeof(info))
	var errno unix.Errno
	err := s.raw.Control(func(fd uintptr) {
		_, _, errno = unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_MEMINFO,
			uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	})
	if err != nil || errno != 0 || int(size) < (unix.SK_MEMINFO_DROPS+1)*4 {
		return 0, false
	}
	return info[unix.SK_MEMINFO_DROPS], true
}
