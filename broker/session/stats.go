package session

import (
	"time"

	"felix/broker"
)

// Stats is a snapshot of a Server. Its parts are read one after the other
// while work goes on.
type Stats struct {
	Counts Counts
	// Connections has one entry for each connection being served, by ID.
	Connections []ConnectionStats
	Draining    bool
}

// ConnectionStats describes one connection.
type ConnectionStats struct {
	// ID counts the connections of this server from 1.
	ID uint64
	// Transport is the ID of the Conn.
	Transport  uint64
	RemoteAddr string
	Since      time.Time
	// Tenant and Subject are those of the token seen last; empty before the
	// first.
	Tenant, Subject string
	// ControlStreams and UniStreams are open client-opened streams.
	ControlStreams, UniStreams int
	// QueuedReplies are owed or not yet written.
	QueuedReplies int
	FramesRead    uint64
	// Subscriptions has one entry for each open subscription.
	Subscriptions []SubscriptionStats
}

// SubscriptionStats describes one subscription.
type SubscriptionStats struct {
	// Queue is the broker's view: identity, queue and drops.
	Queue broker.SubscriptionStats
	Since time.Time
	// Offsets: the client offered to read offsets.
	Offsets bool
	// Replaying: events from before the subscription are still being written.
	Replaying bool
	// Frames, Events, Bytes and Writes went to the event stream; bytes include
	// headers. Frames counts what was written, after small ones were merged.
	Frames, Events, Bytes, Writes uint64
	// Wakeups is how often the reader took something out of the queue.
	Wakeups uint64
	// BlockedFor is how long the write in progress has been waiting for the
	// client; 0 if there is none.
	BlockedFor time.Duration
}
