package platform

// UDPCounters are the host's (network namespace's) counters of one address
// family. They are sums over all sockets, so a difference of two snapshots
// includes what other programs did meanwhile.
type UDPCounters struct {
	// InDatagrams were handed to a socket's reader.
	InDatagrams uint64 `json:"in_datagrams"`
	// NoPorts arrived for a port nobody had open.
	NoPorts uint64 `json:"no_ports"`
	// InErrors could not be delivered for any reason; it includes
	// RcvbufErrors, InCsumErrors and MemErrors.
	InErrors uint64 `json:"in_errors"`
	// OutDatagrams were sent; a segmented send counts as one.
	OutDatagrams uint64 `json:"out_datagrams"`
	// RcvbufErrors were dropped because the socket's receive buffer was full.
	RcvbufErrors uint64 `json:"rcvbuf_errors"`
	// SndbufErrors were dropped on the way out: no memory, or the queue of
	// the device was full.
	SndbufErrors uint64 `json:"sndbuf_errors"`
	// InCsumErrors had a wrong checksum.
	InCsumErrors uint64 `json:"in_csum_errors"`
	// MemErrors were dropped because all UDP sockets together passed the
	// limit net.ipv4.udp_mem.
	MemErrors uint64 `json:"mem_errors"`
}

// Add returns the sums of the counters.
func (c UDPCounters) Add(o UDPCounters) UDPCounters {
	return c.combine(o, func(a, b uint64) uint64 { return a + b })
}

// Sub returns what was counted since the earlier snapshot o. A counter that
// went backwards (it wrapped, or the namespace is another one) gives 0.
func (c UDPCounters) Sub(o UDPCounters) UDPCounters {
	return c.combine(o, since)
}

func (c UDPCounters) combine(o UDPCounters, f func(a, b uint64) uint64) UDPCounters {
	return UDPCounters{
		InDatagrams:  f(c.InDatagrams, o.InDatagrams),
		NoPorts:      f(c.NoPorts, o.NoPorts),
		InErrors:     f(c.InErrors, o.InErrors),
		OutDatagrams: f(c.OutDatagrams, o.OutDatagrams),
		RcvbufErrors: f(c.RcvbufErrors, o.RcvbufErrors),
		SndbufErrors: f(c.SndbufErrors, o.SndbufErrors),
		InCsumErrors: f(c.InCsumErrors, o.InCsumErrors),
		MemErrors:    f(c.MemErrors, o.MemErrors),
	}
}

// set stores a counter under its name in the kernel's tables; other names are
// left out.
func (c *UDPCounters) set(name string, v uint64) {
	switch name {
	case "InDatagrams":
		c.InDatagrams = v
	case "NoPorts":
		c.NoPorts = v
	case "InErrors":
		c.InErrors = v
	case "OutDatagrams":
		c.OutDatagrams = v
	case "RcvbufErrors":
		c.RcvbufErrors = v
	case "SndbufErrors":
		c.SndbufErrors = v
	case "InCsumErrors":
		c.InCsumErrors = v
	case "MemErrors":
		c.MemErrors = v
	}
}

// UDPStats is a snapshot of the host's UDP counters.
type UDPStats struct {
	V4 UDPCounters `json:"v4"`
	// V6 stays 0 on systems that count both families together in V4 and on
	// hosts without IPv6. A dual-stack socket counts by the family of the
	// packet.
	V6 UDPCounters `json:"v6"`
}

// Sub returns what was counted since the earlier snapshot o.
func (s UDPStats) Sub(o UDPStats) UDPStats {
	return UDPStats{V4: s.V4.Sub(o.V4), V6: s.V6.Sub(o.V6)}
}

// Total returns both families together.
func (s UDPStats) Total() UDPCounters { return s.V4.Add(s.V6) }

// UDPSnmp takes a snapshot of the UDP counters. Sources: /proc/net/snmp and
// snmp6 of the calling thread's network namespace on Linux, the sysctl
// net.inet.udp.stats on macOS. Other systems: [ErrNotSupported].
func UDPSnmp() (UDPStats, error) { return readUDPStats() }
