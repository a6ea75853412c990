package transport

import "time"

// ConnStats is a snapshot of a connection's counters. Bytes are those of QUIC packets, without UDP and IP headers.
// Nothing is collected for it alone; taking one costs some atomic loads and a copy of the TLS state.
type ConnStats struct {
	MinRTT       time.Duration
	LatestRTT    time.Duration // last sample
	SmoothedRTT  time.Duration // RFC 9002, 5.3
	RTTDeviation time.Duration // mean deviation, same place

	CongestionWindow uint64 // bytes that may be in flight

	PacketsSent     uint64 // with retransmissions
	BytesSent       uint64
	PacketsReceived uint64 // also those that could not be used
	BytesReceived   uint64
	PacketsLost     uint64 // taken for lost; falls again when one turns up late
	BytesLost       uint64

	// PacketSize is the fixed size of full packets in bytes, or 0 if path MTU discovery decides it. A peer that cannot
	// take as much gets less; BytesSent and PacketsSent of two snapshots tell the mean size really sent.
	PacketSize int
	// GSO: the kernel cuts up what is sent to this peer.
	GSO bool
}

// Stats returns the counters of the connection.
func (c *Conn) Stats() ConnStats {
	s := c.qc.ConnectionStats()
	return ConnStats{
		MinRTT:           s.MinRTT,
		LatestRTT:        s.LatestRTT,
		SmoothedRTT:      s.SmoothedRTT,
		RTTDeviation:     s.MeanDeviation,
		CongestionWindow: s.CongestionWindow,
		PacketsSent:      s.PacketsSent,
		BytesSent:        s.BytesSent,
		PacketsReceived:  s.PacketsReceived,
		BytesReceived:    s.BytesReceived,
		PacketsLost:      s.PacketsLost,
		BytesLost:        s.BytesLost,
		PacketSize:       c.size.known(),
		GSO:              c.qc.ConnectionState().GSO,
	}
}

// ListenerStats is a snapshot of a listener's counters.
type ListenerStats struct {
	Accepted    uint64                       // handshakes completed
	Active      int                          // connections established and not ended
	Handshaking int                          // handshakes in progress
	Proofs      uint64                       // attempts that had to prove their address first
	Failures    [numHandshakeFailures]uint64 // by kind, index with a HandshakeFailure
	WindowBytes int64                        // growth of the connection windows in use (Config.ReceiveBudget)
	WindowHeld  uint64                       // refused growths of a connection window
	PathsLost   uint64                       // connections closed with CodePathUnusable
}

// Stats returns the counters of the listener.
func (l *Listener) Stats() ListenerStats {
	s := ListenerStats{
		Accepted:    l.book.accepted.Load(),
		Handshaking: int(l.book.handshaking.Load()),
		Proofs:      l.book.proofs.Load(),
		WindowBytes: l.tr.budget.used.Load(),
		WindowHeld:  l.tr.budget.refused.Load(),
		Active:      l.conns.len(),
		PathsLost:   l.conns.pathsLost.Load(),
	}
	for i := range s.Failures {
		s.Failures[i] = l.book.failures[i].Load()
	}
	return s
}
