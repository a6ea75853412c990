package session

import (
	"iter"
	"sync/atomic"
)

// Counter names one count that a Server keeps. Counters only grow. What becomes
// of publications and events is counted by package broker.
type Counter uint8

// The counters of a server.
const (
	ConnectionsServed Counter = iota
	ConnectionsRefused
	ControlStreams
	UniStreams
	AuthOK
	AuthFailed
	AuthMissing
	AuthTimeouts
	ConnectionAuthTimeouts
	FramesRead
	UnsupportedFlags
	MalformedFrames
	OversizedFrames
	FrameTimeouts
	UnexpectedMessages
	Forbidden
	PublishUnanswered
	Replies
	ReplyWrites
	ReplyQueueFull
	RepliesLost
	CommitTimeouts
	SubscribesOpened
	SubscribesRefused
	SubscriptionsStopped
	SubscriptionsEnded
	SubscriptionsBroken
	EventFrames
	EventsWritten
	EventBytes
	EventWrites
	DrainCutStreams
	DrainCutSubscriptions

	numCounters
)

// counterInfo declares every counter: its metric name and what it counts.
var counterInfo = [numCounters]struct{ name, help string }{
	ConnectionsServed:      {"connections_served", "Connections taken over from the listener."},
	ConnectionsRefused:     {"connections_refused", "Connections closed at once because the broker was shutting down."},
	ControlStreams:         {"control_streams", "Bidirectional streams opened by clients."},
	UniStreams:             {"uni_streams", "Unidirectional streams opened by clients."},
	AuthOK:                 {"auth_ok", "Streams that presented a valid token."},
	AuthFailed:             {"auth_failed", "Streams ended because their token was refused."},
	AuthMissing:            {"auth_missing", "Streams ended because they sent something else before, or a second, auth message."},
	AuthTimeouts:           {"auth_timeouts", "Streams ended because no auth message came in time."},
	ConnectionAuthTimeouts: {"connection_auth_timeouts", "Connections closed because none of their streams authenticated in time."},
	FramesRead:             {"frames_read", "Frames read from clients."},
	UnsupportedFlags:       {"unsupported_flags", "Frames refused because of an unknown flag."},
	MalformedFrames:        {"malformed_frames", "Frames refused because their header or content could not be decoded."},
	OversizedFrames:        {"oversized_frames", "Frames refused because of their size."},
	FrameTimeouts:          {"frame_timeouts", "Streams ended because a large frame was begun and not completed in time."},
	UnexpectedMessages:     {"unexpected_messages", "Messages refused because they do not belong on that stream or in that direction."},
	Forbidden:              {"forbidden", "Requests refused because the token names another tenant or lacks the permission."},
	PublishUnanswered:      {"publish_unanswered", "Publishes without ack that were dropped: unknown stream, or refused by the broker."},
	Replies:                {"replies", "Replies written to control streams."},
	ReplyWrites:            {"reply_writes", "Writes that carried those replies."},
	ReplyQueueFull:         {"reply_queue_full", "Times a control stream was not read on because too many of its replies were owed or unread."},
	RepliesLost:            {"replies_lost", "Control streams that broke, or whose client stopped reading, while replies were owed."},
	CommitTimeouts:         {"commit_timeouts", "Acks that told a commit timeout."},
	SubscribesOpened:       {"subscribes_opened", "Subscriptions opened."},
	SubscribesRefused:      {"subscribes_refused", "Subscribe requests answered with an error."},
	SubscriptionsStopped:   {"subscriptions_stopped", "Subscriptions that the client stopped, or that ended with its connection."},
	SubscriptionsEnded:     {"subscriptions_ended", "Subscriptions ended by the broker, because their stream was deleted or at shutdown."},
	SubscriptionsBroken:    {"subscriptions_broken", "Subscriptions ended because their queue or their stream failed."},
	EventFrames:            {"event_frames", "Event frames written to subscribers."},
	EventsWritten:          {"events_written", "Events in those frames."},
	EventBytes:             {"event_bytes", "Bytes written to event streams, headers included."},
	EventWrites:            {"event_writes", "Writes that carried those bytes."},
	DrainCutStreams:        {"drain_cut_streams", "Client-opened streams that a drain ended while they were still busy."},
	DrainCutSubscriptions:  {"drain_cut_subscriptions", "Subscriptions whose queue was not empty when a drain closed their connection."},
}

// Name returns the counter's metric name, in snake_case, without prefix or unit.
func (c Counter) Name() string { return counterInfo[c].name }

// Help returns one sentence that says what the counter counts.
func (c Counter) Help() string { return counterInfo[c].help }

// Counters yields every counter.
func Counters() iter.Seq[Counter] {
	return func(yield func(Counter) bool) {
		for c := range numCounters {
			if !yield(c) {
				return
			}
		}
	}
}

// Counts holds the value of every Counter.
type Counts [numCounters]uint64

// counters is the live form of Counts.
type counters [numCounters]atomic.Uint64

func (c *counters) add(n Counter, d uint64) { c[n].Add(d) }

func (c *counters) snapshot() (out Counts) {
	for i := range c {
		out[i] = c[i].Load()
	}
	return out
}
