//go:build !linux

package platform

var (
	udpSegment  = linuxOnly("UDP_SEGMENT")
	udpGRO      = linuxOnly("UDP_GRO")
	bufferForce = linuxOnly("SO_RCVBUFFORCE")
	sendMMsg    = linuxOnly("sendmmsg")
	recvMMsg    = linuxOnly("recvmmsg")
)

func linuxOnly(what string) *cachedProbe {
	return &cachedProbe{run: func() Feature { return no(what+" exists on Linux only", ErrNotSupported) }}
}

func udpSegmentLimit() (int, Feature) { return 1, udpSegment.get() }
