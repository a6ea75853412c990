package broker

import "iter"

// Tally is what a counter has counted, in the three units that a batch has.
type Tally struct {
	// Batches are publications at the ingress and event frames behind it, where
	// an oversized publication has become several.
	Batches uint64
	// Events are single messages.
	Events uint64
	// Bytes are payload bytes.
	Bytes uint64
}

func (t *Tally) add(events, bytes int) {
	t.Batches++
	t.Events += uint64(events)
	t.Bytes += uint64(bytes)
}

func (t *Tally) remove(events, bytes int) {
	t.Batches--
	t.Events -= uint64(events)
	t.Bytes -= uint64(bytes)
}

// Plus returns the sum of t and u.
func (t Tally) Plus(u Tally) Tally {
	return Tally{t.Batches + u.Batches, t.Events + u.Events, t.Bytes + u.Bytes}
}

// Minus returns the difference of t and u, which must not be larger.
func (t Tally) Minus(u Tally) Tally {
	return Tally{t.Batches - u.Batches, t.Events - u.Events, t.Bytes - u.Bytes}
}

// Counter names one count that a stream keeps. Counters only grow.
type Counter uint8

// The counters of a stream, in the order of the path.
const (
	Submitted Counter = iota
	RefusedConnBytes
	RefusedProcessBytes
	RefusedQueueFull
	RefusedAdmissionTimeout
	RefusedEnqueueTimeout
	RefusedCancelled
	RefusedClosed
	RefusedStreamGone
	RefusedInvalid
	Accepted
	AbandonedClosed
	AbandonedStreamGone
	Published
	Offered
	DroppedNew
	DroppedOld
	DroppedClosed
	Delivered

	// Off the path: these are no part of the ledger.

	Waited
	Split
	RingEvicted
	Replayed
	Blocked

	numCounters
)

// Counts holds one Tally for every Counter.
type Counts [numCounters]Tally

func (c *Counts) add(n Counter, events, bytes int) { c[n].add(events, bytes) }

func (c *Counts) merge(o *Counts) {
	for i := range c {
		c[i] = c[i].Plus(o[i])
	}
}

// counterInfo declares every counter: its metric name and what it counts.
var counterInfo = [numCounters]struct{ name, help string }{
	Submitted:               {"publish_submitted", "Publications whose admission was decided: accepted or refused."},
	RefusedConnBytes:        {"publish_refused_conn_bytes", "Refused at once because the connection's in-flight byte budget was spent."},
	RefusedProcessBytes:     {"publish_refused_process_bytes", "Refused at once because the process's in-flight byte budget was spent."},
	RefusedQueueFull:        {"publish_refused_queue_full", "Refused at once because the stream had its full count of publications waiting."},
	RefusedAdmissionTimeout: {"publish_refused_admission_timeout", "Refused after the bounded wait for a byte budget."},
	RefusedEnqueueTimeout:   {"publish_refused_enqueue_timeout", "Refused after the bounded wait for room in the stream's queue."},
	RefusedCancelled:        {"publish_refused_cancelled", "Given up because the publisher's context ended while it waited for admission."},
	RefusedClosed:           {"publish_refused_closed", "Refused because the broker or the connection was closing."},
	RefusedStreamGone:       {"publish_refused_stream_gone", "Refused because the stream had been deleted."},
	RefusedInvalid:          {"publish_refused_invalid", "Refused because the frame did not hold what the publication said."},
	Accepted:                {"publish_accepted", "Publications taken into the stream's queue."},
	AbandonedClosed:         {"publish_abandoned_closed", "Accepted, then failed because the broker's drain time ended before they were published."},
	AbandonedStreamGone:     {"publish_abandoned_stream_gone", "Accepted, then failed because the stream was deleted before they were published."},
	Published:               {"publish_published", "Publications numbered, kept for replay and offered to every subscription."},
	Offered:                 {"fanout_offered", "Event frames offered to subscription queues: one for each subscription and frame."},
	DroppedNew:              {"fanout_dropped_new", "Event frames that a full queue refused under drop_new."},
	DroppedOld:              {"fanout_dropped_old", "Event frames removed from the head of a full queue under drop_old."},
	DroppedClosed:           {"fanout_dropped_closed", "Event frames discarded because their subscription ended before they were taken."},
	Delivered:               {"fanout_delivered", "Event frames taken out of a queue by the subscription's reader."},
	Waited:                  {"publish_waited", "Publications that had to wait for admission, whatever came of it."},
	Split:                   {"publish_split", "Publications over the event-batch limits, which were cut into several event frames."},
	RingEvicted:             {"ring_evicted", "Event frames that left the replay ring to make room for newer ones."},
	Replayed:                {"subscribe_replayed", "Event frames handed out of the replay ring to new subscriptions."},
	Blocked:                 {"fanout_blocked", "Event frames of runs that took a queue over its bounds under the block policy and stalled the stream."},
}

// Name returns the counter's metric name, in snake_case, without prefix or unit.
func (c Counter) Name() string { return counterInfo[c].name }

// Help returns one sentence that says what the counter counts.
func (c Counter) Help() string { return counterInfo[c].help }

// Counters yields every counter in the order of the path.
func Counters() iter.Seq[Counter] {
	return func(yield func(Counter) bool) {
		for c := range numCounters {
			if !yield(c) {
				return
			}
		}
	}
}

// Event names one count of things that happen once at a time, for the whole
// broker.
type Event uint8

// The event counters of a broker.
const (
	SubscribeOK Event = iota
	SubscribeTooOld
	SubscribeInFuture
	SubscribeLimit
	SubscribeGone
	StreamNotFound
	StreamCreated
	StreamDeleted
	CacheNotFound
	CachePut
	CachePutRefused
	CacheHit
	CacheMiss
	CacheExpired
	CacheDeleted

	numEvents
)

// eventInfo declares every event counter.
var eventInfo = [numEvents]struct{ name, help string }{
	SubscribeOK:       {"subscribe_ok", "Subscriptions opened."},
	SubscribeTooOld:   {"subscribe_too_old", "Subscriptions refused because their start offset had left the replay ring."},
	SubscribeInFuture: {"subscribe_in_future", "Subscriptions refused because their start offset had not been assigned yet."},
	SubscribeLimit:    {"subscribe_limit", "Subscriptions refused because the connection had too many."},
	SubscribeGone:     {"subscribe_gone", "Subscriptions refused because the stream was deleted or the broker closed."},
	StreamNotFound:    {"stream_not_found", "Look-ups of a stream that is not registered."},
	StreamCreated:     {"stream_created", "Streams created."},
	StreamDeleted:     {"stream_deleted", "Streams deleted."},
	CacheNotFound:     {"cache_not_found", "Look-ups of a cache that is not registered."},
	CachePut:          {"cache_put", "Cache values stored."},
	CachePutRefused:   {"cache_put_refused", "Cache values refused because the caches were full."},
	CacheHit:          {"cache_hit", "Cache reads that found a value."},
	CacheMiss:         {"cache_miss", "Cache reads that found nothing, or a value that had expired."},
	CacheExpired:      {"cache_expired", "Cache values removed because their time to live had passed."},
	CacheDeleted:      {"cache_deleted", "Cache values removed on request or with their cache."},
}

// Name returns the counter's metric name, in snake_case, without prefix or unit.
func (e Event) Name() string { return eventInfo[e].name }

// Help returns one sentence that says what the counter counts.
func (e Event) Help() string { return eventInfo[e].help }

// Events yields every event counter.
func Events() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for e := range numEvents {
			if !yield(e) {
				return
			}
		}
	}
}
