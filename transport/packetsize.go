package transport

import (
	"felix/platform"
	"felix/udp"
)

// minDatagrams is the number of full packets that the socket buffers must hold before packets beyond the safe start
// are used on loopback: a sender bursts up to 32 of them, and two peers may do so at once.
const minDatagrams = 64

// packetSize is how large the packets to a peer are.
type packetSize struct {
	initial uint16 // first and smallest size, bytes of UDP payload
	fixed   bool   // no search for a larger one
	certain bool   // the path carries it, now and later
}

// known returns the size of full packets, 0 if it is being searched for.
func (p packetSize) known() int {
	if p.fixed {
		return int(p.initial)
	}
	return 0
}

// packetSizes are the sizes of a socket, by peer.
type packetSizes struct {
	path     packetSize // peers anywhere
	loopback packetSize // peers on loopback addresses
}

// choosePacketSizes applies the packet size policy (docs/transport.md) to the settings, the ceiling of the engine and
// the buffers of the socket.
func choosePacketSizes(c Config, ceiling int, granted udp.Buffers) packetSizes {
	if c.InitialPacketSize != 0 {
		size := packetSize{initial: uint16(min(int(c.InitialPacketSize), ceiling)), fixed: c.DisablePMTUD}
		return packetSizes{path: size, loopback: size}
	}
	safe := packetSize{initial: MinPacketSize, fixed: c.DisablePMTUD}
	sizes := packetSizes{path: safe, loopback: safe}
	if n := loopbackSize(c, ceiling); min(granted.Read.Granted, granted.Write.Granted) >= minDatagrams*n {
		sizes.loopback = packetSize{initial: uint16(n), fixed: true, certain: true}
	}
	return sizes
}

// loopbackSize is the largest packet that the loopback interface carries whole, for both IP versions.
func loopbackSize(c Config, ceiling int) int {
	size := ceiling
	if c.LoopbackPacketSize != 0 {
		size = min(size, int(c.LoopbackPacketSize))
	}
	mtu, err := platform.LoopbackMTU()
	if err != nil {
		return MinPacketSize // no interface to ask: stay with what every path carries
	}
	return max(MinPacketSize, min(size, platform.UDPPayload(mtu, true)))
}
