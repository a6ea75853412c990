package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"felix/client"
	"felix/internal/testkit"
	"felix/transport"
)

// TestUnreadSubscription is field case F20: 300 MiB go to a subscription that is
// never read. Another one on the same connection, and requests, go on; the
// daemon holds no more than the queue allows.
func TestUnreadSubscription(t *testing.T) {
	const queue, size, total = 8 << 20, 256 << 10, 300 << 20
	d := testkit.StartDaemon(t, []string{fmt.Sprint("FELIX_SUBSCRIBER_QUEUE_BYTES=", queue)})
	reader := connect(t, clientConfig(t, d)) // one connection for all subscriptions
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	if _, err := reader.Subscribe(ctx, "unread"); err != nil {
		t.Fatal(err)
	}
	y, err := reader.Subscribe(ctx, "healthy")
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, clientConfig(t, d))
	p := c.NewPublisher("unread", client.PublisherOptions{})
	payload := make([]byte, size)
	for i := range total / size {
		if err := p.Publish(ctx, payload); err != nil {
			t.Fatal(err)
		}
		if i%100 == 0 {
			echo(t, c, y, fmt.Sprint(i))
			z, err := reader.Subscribe(ctx, "unread")
			if err != nil {
				t.Fatalf("a further subscription after %d MiB: %v", i*size>>20, err)
			}
			if err := z.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	echo(t, c, y, "last")

	var x struct{ delivered, dropped, queued uint64 }
	testkit.Eventually(t, 20*time.Second, "only the unread subscription is left", func() bool {
		s := subscriptions(t, d, "unread")
		if len(s) != 1 {
			return false
		}
		x.delivered, x.dropped, x.queued = s[0].Delivered, s[0].Dropped, s[0].QueuedEvents
		return s[0].QueuedBytes <= queue
	})
	if x.delivered+x.dropped+x.queued != total/size || x.dropped < total/size/2 {
		t.Errorf("of %d messages: %+v", total/size, x)
	}
	if rss := residentBytes(t, d.Cmd.Process.Pid); rss > 300<<20 {
		t.Errorf("the daemon holds %d MiB", rss>>20)
	}
	checkLedger(t, d, "unread")
}

// TestUnreadSubscriptionsFillTheConnection has as many unread subscriptions as
// the window of the connection has room for. The connection goes on while a
// quarter of its window is free, which is when quic-go grants more; then it
// waits, until enough of them are given up. Other connections are not affected.
func TestUnreadSubscriptionsFillTheConnection(t *testing.T) {
	const window, streams, queue = 256 << 10, 8, 1 << 20
	d := testkit.StartDaemon(t, []string{fmt.Sprint("FELIX_SUBSCRIBER_QUEUE_BYTES=", queue)})
	cfg := clientConfig(t, d)
	cfg.Transport.StreamWindow = transport.Window{Initial: window, Max: window}
	cfg.Transport.ConnWindow = transport.Window{Initial: streams * window, Max: streams * window}
	reader, c := connect(t, cfg), connect(t, clientConfig(t, d))
	other := connect(t, clientConfig(t, d))
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	y, err := reader.Subscribe(ctx, "healthy")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := other.Subscribe(ctx, "healthy")
	if err != nil {
		t.Fatal(err)
	}
	var unread []*client.Subscription
	fill := func(n int) {
		for range n {
			sub, err := reader.Subscribe(ctx, "unread")
			if err != nil {
				t.Fatal(err)
			}
			unread = append(unread, sub)
		}
		for range 16 {
			if err := c.Publish(ctx, "unread", make([]byte, window/2)); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Eventually(t, 20*time.Second, "every unread subscription waits for its reader", func() bool {
			for _, s := range subscriptions(t, d, "unread") {
				if s.BlockedUS < 200_000 {
					return false
				}
			}
			return true
		})
	}
	deliver := func(to *client.Subscription, what string) {
		t.Helper()
		if e, err := to.Next(ctx); err != nil || len(e.Payload) != window/2 {
			t.Fatalf("%s: %d bytes, %v", what, len(e.Payload), err)
		}
	}
	publish := func() {
		t.Helper()
		if err := c.Publish(ctx, "healthy", make([]byte, window/2)); err != nil {
			t.Fatal(err)
		}
	}
	fill(streams * 3 / 4)
	for range 4 * streams { // twice the window of the connection
		publish()
		deliver(y, "a quarter of the window is free")
		deliver(elsewhere, "another connection")
	}

	fill(streams / 4)
	for range 2 { // something may be left of what was granted last
		publish()
		deliver(elsewhere, "another connection")
	}
	short, stop := context.WithTimeout(ctx, 500*time.Millisecond)
	defer stop()
	got := 0
	for err == nil {
		if _, err = y.Next(short); err == nil {
			got++
		}
	}
	if !errors.Is(err, context.DeadlineExceeded) || got == 2 {
		t.Errorf("the connection's window is full, and still %d events came: %v", got, err)
	}
	for _, s := range subscriptions(t, d, "unread") {
		if s.QueuedBytes > queue {
			t.Errorf("a queue holds %d bytes of %d", s.QueuedBytes, queue)
		}
	}
	for _, sub := range unread[:streams/4] {
		if err := sub.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 - got {
		deliver(y, "there is room again")
	}
	echo(t, c, y, "last")
	checkLedger(t, d, "unread")
	checkLedger(t, d, "healthy")
}
