package transport

import "time"

const (
	// pathInterval is the time between two looks at the paths of an endpoint.
	pathInterval = time.Second
	// pathPatience is how long nothing that was sent may be acknowledged before a path is given up. It covers the
	// keep-alive period of a peer, whose packets prove that the peer itself is there.
	pathPatience = 8 * time.Second
	// pathEvidence is how much must have been sent in vain meanwhile: a few packets beyond the safe size.
	pathEvidence = 4 * MinPacketSize
)

// pathCounters are the counters of a connection that show whether its packets arrive.
type pathCounters struct {
	rtt      time.Duration // last sample: changes whenever something new is acknowledged
	sent     uint64        // bytes
	received uint64        // packets
}

func (c *Conn) pathCounters() pathCounters {
	s := c.qc.ConnectionStats()
	return pathCounters{rtt: s.LatestRTT, sent: s.BytesSent, received: s.PacketsReceived}
}

// pathState notices a path whose MTU has shrunk below the packets in use. quic-go never goes back to smaller packets:
// full packets then vanish, while the small ones (keep-alives, acknowledgements) keep the connection alive for ever.
type pathState struct {
	since time.Time
	last  pathCounters
}

// lost takes in the counters at the time now and reports whether the path is unusable: for as long as patience, plenty
// was sent and nothing acknowledged, while the peer could still be heard.
func (p *pathState) lost(now time.Time, patience time.Duration, c pathCounters) bool {
	if p.since.IsZero() || c.rtt != p.last.rtt || c.sent == p.last.sent {
		p.since, p.last = now, c
		return false
	}
	return now.Sub(p.since) >= patience &&
		c.sent-p.last.sent >= pathEvidence &&
		c.received > p.last.received
}
