package daemon

import (
	"cmp"
	"context"
	"slices"
	"time"

	"felix/transport"
	"felix/udp"
)

// logSocket says what the host granted.
func (d *Daemon) logSocket() {
	s := d.listener.Socket()
	c, g := s.Capabilities(), s.Granted()
	d.log.Info("UDP socket", logAddr, d.Addr(),
		"recv_buffer_bytes", g.Read.Granted, "send_buffer_bytes", g.Write.Granted,
		"gso", c.GSO.Active, "gro", c.GRO.Active, "sendmmsg", c.SendMMsg.Active, "recvmmsg", c.RecvMMsg.Active, "ecn", c.ECN.Active)
	for _, f := range features(c) {
		if !f.Active && f.Reason != "" {
			d.log.Debug("UDP feature not in use", "feature", f.name, logReason, f.Reason)
		}
	}
}

// namedFeature is a feature of a socket with the name its setting has.
type namedFeature struct {
	name string
	udp.Feature
}

func features(c udp.Capabilities) []namedFeature {
	return []namedFeature{
		{"gso", c.GSO}, {"gro", c.GRO}, {"sendmmsg", c.SendMMsg}, {"recvmmsg", c.RecvMMsg}, {"ecn", c.ECN}, {"dont_fragment", c.DontFragment},
	}
}

// connections returns the connections being served, oldest first.
func (d *Daemon) connections() []*transport.Conn {
	d.connsMu.Lock()
	defer d.connsMu.Unlock()
	out := make([]*transport.Conn, 0, len(d.conns))
	for _, c := range d.conns {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *transport.Conn) int { return cmp.Compare(a.ID(), b.ID()) })
	return out
}

// logConnections logs the path of every connection each conn_stats_ms.
func (d *Daemon) logConnections(ctx context.Context) {
	t := time.NewTicker(millis(d.cfg.ConnStatsMS))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		for _, c := range d.connections() {
			p := pathReport(c)
			d.log.Info("connection", logConn, c.ID(), logRemote, p.RemoteAddr,
				"packet_bytes", p.PacketBytes, "cwnd_bytes", p.CongestionWindowBytes, "rtt_us", p.SmoothedRTTUS,
				"lost_packets", p.LostPackets, "sent_packets", p.SentPackets, "sent_bytes", p.SentBytes,
				"received_packets", p.ReceivedPackets, "received_bytes", p.ReceivedBytes)
		}
	}
}

// A PathReport describes the path of one connection.
type PathReport struct {
	ID                    uint64 `json:"transport_id"`
	RemoteAddr            string `json:"remote_addr"`
	PacketBytes           int    `json:"packet_bytes"` // fixed, or the mean of what was sent
	PacketSizeFixed       bool   `json:"packet_size_fixed"`
	GSO                   bool   `json:"gso"`
	CongestionWindowBytes uint64 `json:"cwnd_bytes"`
	SmoothedRTTUS         int64  `json:"rtt_us"`
	MinRTTUS              int64  `json:"min_rtt_us"`
	LostPackets           uint64 `json:"lost_packets"`
	SentPackets           uint64 `json:"sent_packets"`
	SentBytes             uint64 `json:"sent_bytes"`
	ReceivedPackets       uint64 `json:"received_packets"`
	ReceivedBytes         uint64 `json:"received_bytes"`
}

func pathReport(c *transport.Conn) PathReport {
	s := c.Stats()
	r := PathReport{
		ID: c.ID(), RemoteAddr: c.RemoteAddr().String(),
		PacketBytes: s.PacketSize, PacketSizeFixed: s.PacketSize != 0, GSO: s.GSO,
		CongestionWindowBytes: s.CongestionWindow,
		SmoothedRTTUS:         s.SmoothedRTT.Microseconds(), MinRTTUS: s.MinRTT.Microseconds(),
		LostPackets: s.PacketsLost, SentPackets: s.PacketsSent, SentBytes: s.BytesSent,
		ReceivedPackets: s.PacketsReceived, ReceivedBytes: s.BytesReceived,
	}
	if r.PacketBytes == 0 && s.PacketsSent > 0 {
		r.PacketBytes = int(s.BytesSent / s.PacketsSent)
	}
	return r
}
