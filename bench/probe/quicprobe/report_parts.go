package quicprobe

import (
	"fmt"

	"felix/platform"
	"felix/udp"
)

func processOf(o Options, m *member) Process {
	s := m.side
	c := s.Counters
	sent, got := c[udp.SentDatagrams.Name()], c[udp.ReceivedDatagrams.Name()]
	p := Process{
		Role: m.role, PID: s.PID, Width: s.Width,
		UserUS: s.Usage.User.Microseconds(), SystemUS: s.Usage.System.Microseconds(),
		Voluntary: s.Usage.Voluntary, Involuntary: s.Usage.Involuntary,
		SendCallsPerDatagram:    ratio(c[udp.SendCalls.Name()], sent),
		ReceiveCallsPerDatagram: ratio(c[udp.ReceiveCalls.Name()], got),
		GSORatio:                ratio(c[udp.SentSegments.Name()], sent),
		GRORatio:                ratio(c[udp.CoalescedPieces.Name()], got),
		Granted:                 s.Granted, Capabilities: s.Capabilities, Counters: c,
		LoopbackGuarantee: o.PacketSize == 0 && len(s.Conns) > 0,
	}
	if !o.pings() {
		p.CPUPerGB = (s.Usage.User + s.Usage.System).Seconds() / (float64(o.payload()) / 1e9)
	}
	var processed uint64
	for _, c := range s.Conns {
		processed += c.Stats.PacketsReceived
		// Without a size of ours, only the guarantee fixes one.
		p.LoopbackGuarantee = p.LoopbackGuarantee && c.Stats.PacketSize != 0
		p.Connections = append(p.Connections, connectionOf(c))
	}
	if got > processed { // a datagram of the handshake may hold several packets
		p.DroppedInEngine = got - processed
	}
	return p
}

func connectionOf(c connSide) Connection {
	s := c.Stats
	return Connection{
		Peer: c.Peer, PacketSizeBytes: s.PacketSize,
		PacketsSent: s.PacketsSent, PacketsLost: s.PacketsLost, PacketsReceived: s.PacketsReceived,
		BytesSent: s.BytesSent, BytesReceived: s.BytesReceived,
		SmoothedRTTUS: s.SmoothedRTT.Microseconds(), MinRTTUS: s.MinRTT.Microseconds(),
		CwndBytes: s.CongestionWindow, GSO: s.GSO,
	}
}

// guaranteePackets is how many full packets package transport wants the socket
// buffers to hold.
const guaranteePackets = 64

// guarantee reports whether it was on in every process, and why.
func (r *Report) guarantee(o Options) (on bool, why string) {
	switch {
	case o.Stock:
		return false, "stock settings"
	case o.PacketSize != 0:
		return false, "the packet size was given"
	}
	size := r.PacketCeilingBytes
	if mtu, err := platform.LoopbackMTU(); err == nil {
		size = min(size, platform.UDPPayload(mtu, true))
	}
	on = true
	var least udp.Buffers
	for i, p := range r.Processes {
		on = on && p.LoopbackGuarantee
		if i == 0 || smaller(p.Granted) < smaller(least) {
			least = p.Granted
		}
	}
	fit := "fit"
	if !on {
		fit = "do not fit"
	}
	return on, fmt.Sprintf("%d packets of %d bytes %s the granted socket buffers (receive %d, send %d bytes)",
		guaranteePackets, size, fit, least.Read.Granted, least.Write.Granted)
}

func smaller(b udp.Buffers) int { return min(b.Read.Granted, b.Write.Granted) }
