package client

import (
	"net"
	"sync/atomic"

	"felix/transport"
)

// Stats are counters since Connect.
type Stats struct {
	Dials           uint64 // connections made
	DialFailures    uint64 // attempts to connect that failed
	ConnectionsLost uint64 // connections that ended without Close
	PublishRequests uint64 // publish frames handed to a stream, repetitions included
	PublishMessages uint64 // messages in them
	PublishBytes    uint64 // payload bytes in them
	PublishFailures uint64 // publish frames that were refused or lost
	EventFrames     uint64 // event frames received
	Events          uint64 // events in them
	EventBytes      uint64 // payload bytes in them
	StreamsRefused  uint64 // event streams refused, see Config.MaxPendingEventStreams, or never asked for
	Resumptions     uint64 // subscriptions made again
	Probes          uint64 // signs of life asked for, see Config.ProbeInterval
	CacheRequests   uint64 // cache requests sent
}

// counters is where Stats comes from.
type counters struct {
	dials, dialFailures, connectionsLost       atomic.Uint64
	publishRequests, publishMessages           atomic.Uint64
	publishBytes, publishFailures              atomic.Uint64
	eventFrames, events, eventBytes            atomic.Uint64
	streamsRefused, resumptions, cacheRequests atomic.Uint64
	probes                                     atomic.Uint64
}

// Stats returns the counters of the client.
func (c *Client) Stats() Stats {
	return Stats{
		Dials:           c.count.dials.Load(),
		DialFailures:    c.count.dialFailures.Load(),
		ConnectionsLost: c.count.connectionsLost.Load(),
		PublishRequests: c.count.publishRequests.Load(),
		PublishMessages: c.count.publishMessages.Load(),
		PublishBytes:    c.count.publishBytes.Load(),
		PublishFailures: c.count.publishFailures.Load(),
		EventFrames:     c.count.eventFrames.Load(),
		Events:          c.count.events.Load(),
		EventBytes:      c.count.eventBytes.Load(),
		StreamsRefused:  c.count.streamsRefused.Load(),
		Resumptions:     c.count.resumptions.Load(),
		Probes:          c.count.probes.Load(),
		CacheRequests:   c.count.cacheRequests.Load(),
	}
}

// Connection describes a connection that is open.
type Connection struct {
	Role       string // "publish", "event" or "cache"; "" before its first use
	LocalAddr  net.Addr
	RemoteAddr net.Addr
	Stats      transport.ConnStats
}

// Connections returns the connections that are open, with their counters.
func (c *Client) Connections() []Connection {
	var all []Connection
	add := func(role string, l *link) {
		if q, ok := l.conn.(*quicConn); ok && l.alive() {
			all = append(all, Connection{role, q.LocalAddr(), q.RemoteAddr(), q.Stats()})
		}
	}
	for _, s := range c.slots {
		s.mu.Lock()
		l := s.link
		s.mu.Unlock()
		if l != nil {
			add(s.role, l)
		}
	}
	if ctl := c.spare.Load(); ctl != nil {
		add("", ctl.link)
	}
	return all
}
