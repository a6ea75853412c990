package e2e

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"felix/client"
	"felix/daemon"
	"felix/internal/testkit"
)

// Messages of the stuck-subscriber tests. The stuck one's window, queue and
// writer hold about 6 MiB, so most of them have nowhere to go.
const (
	stuckSize     = 4 << 10
	stuckMessages = 32 << 20 / stuckSize
	stuckWindow   = 1 << 20
	stuckQueue    = 4 << 20
)

// stuckSetup is a stream with three subscriber processes, the last of which is
// to be stopped.
type stuckSetup struct {
	d         *testkit.Daemon
	subs      []*child
	publisher *client.Publisher
	sent      uint64
}

func newStuckSetup(t *testing.T, policy string, env ...string) *stuckSetup {
	t.Helper()
	s := &stuckSetup{d: testkit.StartDaemon(t, append(env, "FELIX_SUB_QUEUE_POLICY="+policy, fmt.Sprint("FELIX_SUBSCRIBER_QUEUE_BYTES=", stuckQueue)))}
	for range 3 {
		s.subs = append(s.subs, startChild(t, s.d, childSpec{Stream: "s", StreamWindow: stuckWindow}))
	}
	testkit.Eventually(t, 30*time.Second, "three subscriptions", func() bool { return len(subscriptions(t, s.d, "s")) == 3 })
	s.publisher = connect(t, clientConfig(t, s.d)).NewPublisher("s", client.PublisherOptions{})
	s.send(t, 100)
	s.caughtUp(t, s.subs)
	return s
}

// send publishes n messages, never so far ahead of the first two subscribers
// that a slow machine could fill their queues.
func (s *stuckSetup) send(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	for range n {
		if s.sent%64 == 0 {
			testkit.Eventually(t, 60*time.Second, "the live subscribers keep up", func() bool {
				return s.subs[0].report().Next+stuckQueue/stuckSize/2 > s.sent && s.subs[1].report().Next+stuckQueue/stuckSize/2 > s.sent
			})
		}
		if err := s.publisher.Publish(ctx, numbered(s.sent, stuckSize)); err != nil {
			t.Fatalf("publish %d: %v", s.sent, err)
		}
		s.sent++
	}
	if err := s.publisher.Flush(ctx); err != nil {
		t.Fatalf("flush after %d: %v", s.sent, err)
	}
}

// caughtUp waits until the last message has come to each of the subscribers.
func (s *stuckSetup) caughtUp(t *testing.T, subs []*child) {
	t.Helper()
	for i, c := range subs {
		c.until(t, 60*time.Second, fmt.Sprintf("subscriber %d has got message %d", i, s.sent-1), func(r childReport) bool { return r.Next == s.sent })
	}
}

func (s *stuckSetup) complete(t *testing.T, subs []*child) {
	t.Helper()
	for i, c := range subs {
		if r := c.report(); r.Received != s.sent || r.Missed != 0 || r.Repeated != 0 || r.Err != "" {
			t.Errorf("subscriber %d of %d messages: %+v", i, s.sent, r)
		}
	}
}

// dropped returns the subscription that has dropped the most, and fails the test
// if any other has dropped something.
func (s *stuckSetup) dropped(t *testing.T) (most daemon.SubscriptionReport) {
	t.Helper()
	with := 0
	for _, r := range subscriptions(t, s.d, "s") {
		if r.Dropped > 0 {
			with++
		}
		if r.Dropped >= most.Dropped {
			most = r
		}
	}
	if with > 1 {
		t.Errorf("%d subscriptions have dropped events", with)
	}
	return most
}

// TestStuckSubscriberDrops is field case F18 with the policies that drop: one of
// three subscriber processes is stopped. The publisher and the others do not
// notice, what the daemon holds is bounded, and the stopped one alone has losses,
// all of them counted.
func TestStuckSubscriberDrops(t *testing.T) {
	for _, policy := range []string{"drop_new", "drop_old"} {
		t.Run(policy, func(t *testing.T) {
			s := newStuckSetup(t, policy)
			live, stuck := s.subs[:2], s.subs[2]
			before := residentBytes(t, s.d.Cmd.Process.Pid)
			stuck.signal(t, syscall.SIGSTOP)
			start := time.Now()
			s.send(t, stuckMessages)
			s.caughtUp(t, live)
			t.Logf("%d messages past a stopped subscriber in %v", stuckMessages, time.Since(start))
			s.complete(t, live)

			held := s.dropped(t)
			if held.Dropped < stuckMessages/2 || held.QueuedBytes > stuckQueue || held.QueuedBytes < stuckQueue/2 {
				t.Errorf("the stopped subscription: %+v", held)
			}
			if grown := residentBytes(t, s.d.Cmd.Process.Pid) - before; grown > 128<<20 {
				t.Errorf("the daemon has grown by %d MiB", grown>>20)
			}

			stuck.signal(t, syscall.SIGCONT)
			testkit.Eventually(t, 60*time.Second, "the queue is empty", func() bool { return s.dropped(t).QueuedEvents == 0 })
			s.send(t, 1) // there is room again
			s.caughtUp(t, s.subs)
			s.complete(t, live)
			after := s.dropped(t)
			if r := stuck.report(); r.Missed != after.Dropped || r.Received+r.Missed != s.sent || r.Repeated != 0 || r.Err != "" {
				t.Errorf("%d sent, %d dropped, the subscriber: %+v", s.sent, after.Dropped, r)
			}
			st := checkLedger(t, s.d, "s")["fanout"]
			if drops := st.Dropped["fanout_dropped_new"] + st.Dropped["fanout_dropped_old"]; st.In != 3*s.sent || drops != after.Dropped {
				t.Errorf("ledger: %+v, want %d offered, %d dropped", st, 3*s.sent, after.Dropped)
			}
		})
	}
}

// TestStuckSubscriberBlocks is field case F18 with the policy that waits: the
// stopped subscriber holds up the stream, nothing is lost, and its end lets
// everything go on.
func TestStuckSubscriberBlocks(t *testing.T) {
	// A killed process says nothing, so the idle timeout decides when its end is known.
	s := newStuckSetup(t, "block", "FELIX_IDLE_TIMEOUT_MS=5000", "FELIX_KEEP_ALIVE_MS=1000", "FELIX_PUBLISH_QUEUE_WAIT_MS=60000")
	live, stuck := s.subs[:2], s.subs[2]
	stuck.signal(t, syscall.SIGSTOP)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		s.send(t, stuckMessages)
	}()
	var over daemon.SubscriptionReport
	testkit.Eventually(t, 30*time.Second, "the queue is over its bounds", func() bool {
		for _, r := range subscriptions(t, s.d, "s") {
			if r.QueuedBytes > stuckQueue {
				over = r
			}
		}
		return over.ID != 0
	})
	// One turn of the worker, at most 1 MiB and one frame, may exceed the bounds.
	if over.QueuedBytes > stuckQueue+1<<20+512<<10 {
		t.Errorf("the queue holds %d bytes of %d", over.QueuedBytes, stuckQueue)
	}
	published := checkLedger(t, s.d, "s")["ingress"].Out
	select {
	case <-sent:
		t.Fatal("the publisher was not blocked")
	case <-time.After(500 * time.Millisecond):
	}
	if now := checkLedger(t, s.d, "s")["ingress"].Out; now != published {
		t.Errorf("the stream went on while it was blocked: %d messages, then %d", published, now)
	}
	stuck.kill()
	select {
	case <-sent:
	case <-time.After(60 * time.Second):
		t.Fatal("the publisher is still blocked after the stuck subscriber has gone")
	}
	s.caughtUp(t, live)
	s.complete(t, live)
	st := checkLedger(t, s.d, "s")["fanout"]
	if st.Dropped["fanout_dropped_new"]+st.Dropped["fanout_dropped_old"] > 0 || st.Dropped["fanout_dropped_closed"] == 0 {
		t.Errorf("ledger: %+v, want nothing dropped but the queue of the one that has gone", st)
	}
}
