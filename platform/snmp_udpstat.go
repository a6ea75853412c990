package platform

import (
	"encoding/binary"
	"fmt"
)

// Positions in the kernel's structure, an array of 32-bit counters
// (bsd/netinet/udp_var.h):
//
//	struct udpstat {
//		u_int32_t udps_ipackets, udps_hdrops, udps_badsum, udps_badlen,
//		          udps_noport, udps_noportbcast, udps_fullsock,
//		          udpps_pcbcachemiss, udpps_pcbhashmiss, udps_opackets, ...
//	};
const (
	statIn         = 0
	statHeader     = 1
	statChecksum   = 2
	statLength     = 3
	statNoPort     = 4
	statFullSocket = 6
	statOut        = 9
	statFields     = 10
)

// parseUDPStat maps macOS's counters onto ours. Both address families are
// together in V4. ipackets counts what arrived, so what was not delivered is
// taken off.
func parseUDPStat(raw []byte) (UDPStats, error) {
	if len(raw) < 4*statFields {
		return UDPStats{}, fmt.Errorf("udp counters: %d bytes, want at least %d", len(raw), 4*statFields)
	}
	at := func(i int) uint64 { return uint64(binary.NativeEndian.Uint32(raw[4*i:])) }
	c := UDPCounters{
		NoPorts:      at(statNoPort),
		InCsumErrors: at(statChecksum),
		RcvbufErrors: at(statFullSocket),
		OutDatagrams: at(statOut),
		InErrors:     at(statHeader) + at(statChecksum) + at(statLength) + at(statFullSocket),
	}
	if lost := c.InErrors + c.NoPorts; at(statIn) > lost {
		c.InDatagrams = at(statIn) - lost
	}
	return UDPStats{V4: c}, nil
}
