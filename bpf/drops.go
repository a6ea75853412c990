package bpf

// Drops are the datagrams that arrived for a watched socket and were dropped
// at its receive buffer.
type Drops struct {
	// Sockets lists every watched socket, those without drops as well.
	Sockets []SocketDrops `json:"sockets"`
}

// SocketDrops is one watched socket. A merged datagram is dropped as one and
// counts once, as it does in the kernel's own counters.
type SocketDrops struct {
	Cookie    uint64 `json:"cookie"`
	LocalPort uint16 `json:"local_port"`
	// BufferFull: the socket's receive buffer was full. The kernel counts these
	// as RcvbufErrors in /proc/net/snmp and in SO_MEMINFO.
	BufferFull uint64 `json:"buffer_full"`
	// Memory: all UDP sockets together passed net.ipv4.udp_mem.
	Memory uint64 `json:"memory"`
	Other  uint64 `json:"other"`
}

// Total returns all drops of the socket.
func (d SocketDrops) Total() uint64 { return d.BufferFull + d.Memory + d.Other }

// Total returns all drops of all watched sockets.
func (d *Drops) Total() uint64 {
	var n uint64
	for _, s := range d.Sockets {
		n += s.Total()
	}
	return n
}

// Socket returns the socket with the given cookie, the zero value if it is not
// watched.
func (d *Drops) Socket(cookie uint64) SocketDrops {
	for _, s := range d.Sockets {
		if s.Cookie == cookie {
			return s
		}
	}
	return SocketDrops{Cookie: cookie}
}

func (d *Drops) sub(o *Drops) *Drops {
	return &Drops{Sockets: subtract(d.Sockets, o.Sockets,
		func(s SocketDrops) uint64 { return s.Cookie },
		func(a, b SocketDrops) (SocketDrops, bool) {
			a.BufferFull = since(a.BufferFull, b.BufferFull)
			a.Memory = since(a.Memory, b.Memory)
			a.Other = since(a.Other, b.Other)
			return a, true
		})}
}
