package udp

// policy is how a family of systems treats a UDP socket. Each system picks one
// in its own file; all of them are compiled everywhere, so that their logic is
// tested everywhere.
type policy struct {
	// doubled: buffer sizes read back as twice what was granted, for the kernel
	// adds its own bookkeeping (socket(7)).
	doubled bool
	// readLimit and writeLimit name the settings that limit buffers.
	readLimit, writeLimit string
	// minWrite is the smallest useful send buffer in bytes.
	minWrite int
	// bothFamilies: an IPv6 socket that also serves IPv4 takes the IPv4 options
	// for that traffic.
	bothFamilies bool
	// dualDontFragment is the major kernel version from which the IPv6
	// don't-fragment option of such a socket covers IPv4; 0: never.
	dualDontFragment int
}

var (
	linuxPolicy = policy{
		doubled:      true,
		readLimit:    "net.core.rmem_max",
		writeLimit:   "net.core.wmem_max",
		bothFamilies: true,
	}
	// darwinPolicy: a datagram just under the send buffer's size blocks for ever
	// there, so that buffer holds the largest datagram and its control data.
	// Darwin 24 is macOS 15.
	darwinPolicy = policy{
		readLimit:        "kern.ipc.maxsockbuf",
		writeLimit:       "kern.ipc.maxsockbuf",
		minWrite:         maxRead + controlRoom,
		dualDontFragment: 24,
	}
	plainPolicy = policy{
		readLimit:  "kern.ipc.maxsockbuf",
		writeLimit: "kern.ipc.maxsockbuf",
	}
)
