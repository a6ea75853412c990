package session

import (
	"strconv"
	"strings"
	"sync"
	"testing"

	"felix/broker"
	"felix/wire"
)

// A subscription that nobody reads, with far more to it than its window, stops
// neither another one on the same connection, nor requests, nor the publisher;
// the broker keeps no more than its queue, and says whose events were dropped.
func TestUnreadSubscription(t *testing.T) {
	const queueBytes = 1 << 20
	run(t, func(e *env, c *testClient) {
		unread, stuck := c.subscribe(wire.Subscribe{})
		read, healthy := c.subscribe(wire.Subscribe{})
		p := e.dial()
		s := p.control()
		payload := strings.Repeat("x", 64<<10)
		control := c.control()
		for i := range uint64(400) { // 25 MiB
			s.publish(&i, payload)
			s.acked(i, "")
			if got := read.take(1)[0].payload; len(got) != len(payload) {
				t.Fatalf("event of %d bytes", len(got))
			}
			if i%100 == 0 {
				control.send(get("k", id(i)))
				expect(control, valueOf("k", nil, id(i)))
			}
		}
		for _, sub := range e.server.Stats().Connections[0].Subscriptions {
			switch sub.Queue.ID {
			case stuck:
				if sub.Queue.QueuedBytes > queueBytes || sub.Queue.DroppedNew.Events < 300 {
					t.Errorf("stuck subscription: %+v", sub.Queue)
				}
				if sub.BlockedFor <= 0 {
					t.Error("the blocked write does not show")
				}
			case healthy:
				if sub.Queue.DroppedNew.Events != 0 || sub.Events != 400 {
					t.Errorf("healthy subscription: %+v", sub)
				}
			}
		}
		// What the window and the queue held is in order, without a hole.
		if got := unread.take(8); len(got) != 8 {
			t.Errorf("%d events", len(got))
		}
		p.close()
	}, func(_ *Config, o *broker.Options) { o.SubQueueBytes = queueBytes })
}

// As many unread subscriptions as fill the connection's window stop the other
// subscriptions of that connection: that is flow control, and up to the client.
// Other connections go on, and so does this one once the client reads.
func TestUnreadSubscriptionsFillTheConnectionWindow(t *testing.T) {
	e := newEnv(t)
	c := e.dial(func(l *memLink) { l.connWindow[clientEnd] = 512 << 10 })
	first, _ := c.subscribe(wire.Subscribe{})
	second, _ := c.subscribe(wire.Subscribe{})
	other := e.dial()
	ev, _ := other.subscribe(wire.Subscribe{})
	p := other.control()
	payload := strings.Repeat("x", 100_000)
	for i := range uint64(20) {
		p.publish(&i, payload)
		p.acked(i, "")
		ev.take(1)
	}
	first.take(20)
	second.take(20)
	c.control().alive()
	c.close()
	other.close()
	e.close()
}

// Default settings, one reading subscriber, tiny messages as fast as they go:
// nothing is lost.
func TestNothingIsLostByDefault(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		const events = 20_000
		ev, _ := c.subscribe(wire.Subscribe{})
		var publishing sync.WaitGroup
		publishing.Go(func() {
			p := c.control()
			for i := range events {
				p.publish(nil, strconv.Itoa(i))
			}
			p.publish(id(1), "end")
			p.acked(1, "")
		})
		got := ev.take(events + 1)
		for i, g := range got[:events] {
			if g.payload != strconv.Itoa(i) {
				t.Fatalf("event %d is %q", i, g.payload)
			}
		}
		publishing.Wait()
		if st := e.server.Stats(); st.Counts[EventFrames] > events/4 || st.Counts[PublishUnanswered] != 0 {
			t.Errorf("%d frames for %d events, %d dropped", st.Counts[EventFrames], events, st.Counts[PublishUnanswered])
		}
	})
}

// Where the policy drops, a client that reads offsets sees the gap.
func TestGapsShowInOffsets(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		ev, _ := c.subscribe(wire.Subscribe{})
		p := e.dial()
		s := p.control()
		payload := strings.Repeat("x", 10_000)
		for i := range uint64(200) {
			s.publish(&i, payload)
			s.acked(i, "")
		}
		eventually(t, "published", func() bool { return e.stream(t).Info().NextSeq == 200 })
		dropped := e.server.Stats().Connections[0].Subscriptions[0].Queue.DroppedNew.Events
		if dropped == 0 {
			t.Fatal("nothing was dropped")
		}
		// Gaps, the one before the first event included, add up to what was
		// dropped. The queue is empty once an event published now arrives.
		for seen, missing, next := uint64(0), uint64(0), uint64(0); next < 201; {
			f := ev.frame()
			b, err := wire.ParseEventBatch(f.Flags, f.Payload())
			if err != nil || !b.HasBase {
				t.Fatalf("frame %#x, error %v", f.Flags, err)
			}
			missing += b.BaseOffset - next
			next = b.BaseOffset + uint64(b.Items.Len())
			seen += uint64(b.Items.Len())
			if seen == 200-dropped {
				s.publish(id(1000), "last")
				s.acked(1000, "")
			}
			if next == 201 && (missing != dropped || seen+dropped != 201) {
				t.Errorf("%d seen, gaps of %d, %d dropped", seen, missing, dropped)
			}
		}
		p.close()
	}, func(cfg *Config, o *broker.Options) { cfg.Offsets, o.SubQueueBytes = OffsetsAll, 200_000 })
}

// With a blocking subscriber its stream waits, others do not, and it goes on when
// the stuck client leaves.
func TestBlockingSubscriberIsReleased(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		if err := e.broker.CreateStream(broker.Key{Tenant: testTenant, Namespace: testNS, Name: "other"}, broker.StreamOptions{}); err != nil {
			t.Fatal(err)
		}
		ev, _ := c.subscribe(wire.Subscribe{})
		p, q := e.dial(), e.dial()
		s, tick := p.control(), q.control()
		payload := strings.Repeat("x", 64<<10)
		var publishing sync.WaitGroup
		publishing.Go(func() {
			for range 200 {
				s.publish(nil, payload)
			}
			s.alive()
		})
		eventually(t, "publisher blocked", func() bool {
			return e.server.Stats().Connections[0].Subscriptions[0].BlockedFor > 0 && e.stream(t).Ledger().IngressQueued.Batches > 0
		})
		tick.bytes(batchFrame(t, wire.PublishHeader{
			TenantID: testTenant, Namespace: testNS, Stream: "other", Acked: true, RequestID: 1, Ack: wire.AckPerBatch,
		}, "x"))
		tick.acked(1, "")
		ev.s.CancelRead(0)
		publishing.Wait()
		p.close()
		q.close()
	}, func(_ *Config, o *broker.Options) {
		o.SubPolicy, o.SubQueueBytes, o.ConnInflightBytes = broker.PolicyBlock, 256<<10, 1<<20
	})
}
