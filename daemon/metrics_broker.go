package daemon

import (
	"felix/broker"
	"felix/broker/session"
)

// collectBroker exports the counters of the broker core: once under the names
// that dashboards of the original broker use, where it counts the same thing,
// and once as the broker declares them.
func (m metricsSource) collectBroker(s sink) {
	if m.d.broker == nil {
		return
	}
	st := m.d.broker.Stats()
	m.originalBrokerNames(s, &st)
	for c := range broker.Counters() {
		t := st.Total.Counts[c]
		name := "felix_broker_" + c.Name()
		s.counter(name+"_batches_total", c.Help(), t.Batches)
		s.counter(name+"_events_total", c.Help()+" In events.", t.Events)
		s.counter(name+"_bytes_total", c.Help()+" In payload bytes.", t.Bytes)
	}
	for e := range broker.Events() {
		s.counter("felix_broker_"+e.Name()+"_total", e.Help(), st.Events[e])
	}
	s.gauge("felix_broker_streams", "Streams registered.", float64(st.Streams))
	s.gauge("felix_broker_caches", "Cache scopes registered.", float64(st.Caches))
	s.gauge("felix_broker_subscriptions", "Subscriptions open.", float64(st.Subscriptions))
	s.gauge("felix_broker_inflight_bytes", "Frame bytes charged to pub_inflight_bytes.", float64(st.InflightBytes))
	s.gauge("felix_broker_fanout_queued_bytes", "Payload bytes in subscription queues.", float64(st.Total.FanoutQueued.Bytes))
	s.gauge("felix_cache_entries", "Values in all caches.", float64(st.CacheEntries))
	s.gauge("felix_cache_bytes", "Bytes charged to cache_max_bytes.", float64(st.CacheBytes))
	for _, w := range st.Wakeups {
		wakeupHistogram(s, w)
	}
}

// wakeupHistogram exports the items a stage handled per wakeup.
func wakeupHistogram(s sink, w broker.WakeupStats) {
	buckets := map[float64]uint64{}
	var below uint64
	for i, n := range w.Buckets[:len(w.Buckets)-1] {
		below += n
		buckets[float64(w.UpperBound(i))] = below
	}
	s.histogram("felix_stage_items_per_wakeup", "Items a stage handled each time it was woken.", w.Wakeups, float64(w.Items), buckets, "stage", w.Stage)
}

func (m metricsSource) originalBrokerNames(s sink, st *broker.Stats) {
	c := &st.Total.Counts
	dropped := c[broker.DroppedNew].Plus(c[broker.DroppedOld])
	overload := c[broker.RefusedConnBytes].Batches + c[broker.RefusedProcessBytes].Batches + c[broker.RefusedQueueFull].Batches +
		c[broker.RefusedAdmissionTimeout].Batches + c[broker.RefusedEnqueueTimeout].Batches
	failed := c[broker.RefusedCancelled].Batches + c[broker.RefusedClosed].Batches + c[broker.RefusedStreamGone].Batches + c[broker.RefusedInvalid].Batches

	const requests, requestsHelp = "felix_publish_requests_total", "Publish requests by outcome of their admission."
	s.counter(requests, requestsHelp, c[broker.Accepted].Batches, "result", "accepted")
	s.counter(requests, requestsHelp, overload, "result", "dropped")
	s.counter(requests, requestsHelp, failed, "result", "error")
	s.counter("felix_publish_bytes_total", "Payload bytes of accepted publishes.", c[broker.Accepted].Bytes)

	const subscribes, subscribesHelp = "felix_subscribe_requests_total", "Subscribe requests that reached a stream, by outcome."
	s.counter(subscribes, subscribesHelp, st.Events[broker.SubscribeOK], "result", "ok")
	s.counter(subscribes, subscribesHelp, st.Events[broker.SubscribeTooOld]+st.Events[broker.SubscribeInFuture]+
		st.Events[broker.SubscribeLimit]+st.Events[broker.SubscribeGone], "result", "error")
	s.counter("felix_broker_subscribe_conn_limit_rejected_total", "Subscriptions refused by max_subscriptions_per_conn.", st.Events[broker.SubscribeLimit])
	s.counter("felix_subscribe_dropped_total", "Events dropped at full subscription queues.", dropped.Events)

	s.gauge("felix_sub_queue_len", "Event frames waiting in subscription queues.", float64(st.Total.FanoutQueued.Batches))
	s.counter("felix_sub_enqueued_total", "Event frames put into subscription queues.", c[broker.Offered].Batches-c[broker.DroppedNew].Batches)
	s.counter("felix_sub_dequeued_total", "Event frames taken out of subscription queues.", c[broker.Delivered].Batches)
	s.counter("felix_sub_dropped_total", "Event frames dropped at full subscription queues.", dropped.Batches)
	s.counter("felix_sub_shared_batch_handles_total", "References to shared frames handed to subscription queues.", c[broker.Offered].Batches)

	const ingress = "felix_broker_ingress_"
	s.gauge(ingress+"queue_depth", "Publishes waiting for their worker.", float64(st.Total.IngressQueued.Batches))
	s.counter(ingress+"queue_full_total", "Publishes refused because the stream's queue was full.", c[broker.RefusedQueueFull].Batches)
	s.counter(ingress+"bytes_full_total", "Publishes refused by pub_inflight_bytes.", c[broker.RefusedProcessBytes].Batches)
	s.counter(ingress+"conn_bytes_full_total", "Publishes refused by pub_conn_inflight_bytes.", c[broker.RefusedConnBytes].Batches)
	s.counter(ingress+"rejected_total", "Publishes refused for any reason.", overload+failed)
	s.counter(ingress+"waited_total", "Publishes that waited for admission.", c[broker.Waited].Batches)
	s.counter(ingress+"backpressure_cancelled_total", "Publishes given up while they waited for admission.", c[broker.RefusedCancelled].Batches)
}

// collectSessions exports the counters of the protocol server, in the same two
// ways.
func (m metricsSource) collectSessions(s sink) {
	if m.d.server == nil {
		return
	}
	st := m.d.server.Stats()
	var active, subscribers, replies int
	for _, c := range st.Connections {
		if len(c.Subscriptions) > 0 {
			active++
		}
		subscribers += len(c.Subscriptions)
		replies += c.QueuedReplies
	}
	s.gauge("felix_sub_active_connections", "Connections with subscriptions.", float64(active))
	s.gauge("felix_sub_connection_subscribers", "Subscriptions of all connections.", float64(subscribers))
	s.counter("felix_subscriber_disconnect_total", "Subscriptions that ended.", st.Counts[session.SubscriptionsStopped]+
		st.Counts[session.SubscriptionsEnded]+st.Counts[session.SubscriptionsBroken])
	s.counter("felix_subscribe_bytes_total", "Bytes written to event streams, headers included.", st.Counts[session.EventBytes])
	s.counter("felix_broker_ingress_dropped_total", "Publishes without acknowledgement that were dropped.", st.Counts[session.PublishUnanswered])
	s.gauge("felix_broker_out_ack_depth", "Replies owed or not yet written.", float64(replies))
	s.counter("felix_broker_out_ack_full_total", "Times a control stream was not read on because of replies it was owed.", st.Counts[session.ReplyQueueFull])
	s.counter("felix_broker_ack_waiter_timeout_total", "Acknowledgements that told a commit timeout.", st.Counts[session.CommitTimeouts])
	for c := range session.Counters() {
		s.counter("felix_session_"+c.Name()+"_total", c.Help(), st.Counts[c])
	}
}
