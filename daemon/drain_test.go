package daemon

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"time"

	"felix/client"
	"felix/internal/testkit"
)

// TestShutdownUnderLoad is field case F21: a shutdown while publishers pipeline
// acknowledged messages. Every message that was acknowledged has reached the
// live subscriber, the subscriber is told why its connection ends, and the drain
// keeps within its budget.
func TestShutdownUnderLoad(t *testing.T) {
	for range 2 {
		shutdownUnderLoad(t)
	}
}

const loadPublishers = 4

func shutdownUnderLoad(t *testing.T) {
	c := testConfig(t)
	c = c.withProfile(profileLossless)
	c.SubscriberQueueBytes = mib // what is acknowledged and not delivered yet
	d, log := startDaemon(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	s, err := connect(t, d).Subscribe(ctx, "load", client.WithoutResume())
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	got := make([]uint64, loadPublishers) // messages received of each publisher
	var ended error
	work.Go(func() { ended = count(ctx, s, got) })

	acked := make([]uint64, loadPublishers)
	quit := make(chan struct{}) // the publishers take no more
	var loading sync.WaitGroup
	loading.Add(loadPublishers)
	for i := range loadPublishers {
		p := connect(t, d).NewPublisher("load", client.PublisherOptions{})
		work.Go(func() { acked[i] = publishUntil(ctx, quit, p, i, loading.Done) })
	}
	loading.Wait()
	begin := time.Now()
	time.AfterFunc(300*time.Millisecond, func() { close(quit) }) // in the middle of the drain
	stopDaemon(t, d)
	if took, budget := time.Since(begin), millis(c.ShutdownDrainTimeoutMS); took > budget {
		t.Errorf("the shutdown took %v of a budget of %v", took, budget)
	}
	work.Wait()
	var total uint64
	defer func() {
		if t.Failed() {
			t.Logf("the subscription ended with %v; log:\n%s", ended, log)
		}
	}()
	for i := range loadPublishers {
		if got[i] < acked[i] {
			t.Errorf("publisher %d: %d messages were acknowledged, %d delivered", i, acked[i], got[i])
		}
		total += acked[i]
	}
	if total == 0 {
		t.Error("nothing was acknowledged: this tested nothing")
	}
	if ended == nil || ctx.Err() != nil {
		t.Errorf("the subscription ended with %v, want the broker's reason", ended)
	}
}

// publishUntil publishes until it is refused or quit is closed, and returns how
// many messages were acknowledged. It calls running once a few have been.
func publishUntil(ctx context.Context, quit <-chan struct{}, p *client.Publisher, id int, running func()) uint64 {
	payload := make([]byte, 1<<10)
	payload[0] = byte(id)
	started := false
	for n := uint64(0); ; n++ {
		binary.BigEndian.PutUint64(payload[1:], n)
		err := p.Publish(ctx, payload)
		st := p.Stats()
		if !started && (st.Acked > 1000 || err != nil) {
			started = true
			running()
		}
		if err != nil || st.Failed > 0 || isClosed(quit) {
			break
		}
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = p.Close(closing) // it reports the failure that ended the loop
	return p.Stats().Acked
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

var errOrder = errors.New("messages of one publisher are out of order")

// count receives until the subscription ends. got[i] is how many messages of
// publisher i came, all of them in order.
func count(ctx context.Context, s *client.Subscription, got []uint64) error {
	var batch []client.Event
	for {
		var err error
		batch, err = s.NextBatch(ctx, batch[:0])
		for _, e := range batch {
			id := e.Payload[0]
			if binary.BigEndian.Uint64(e.Payload[1:]) != got[id] {
				return errOrder
			}
			got[id]++
		}
		if err != nil {
			return err
		}
	}
}

// TestSubscriberGetsItsQueueAtShutdown publishes to a subscriber that has not
// read yet when the shutdown begins.
func TestSubscriberGetsItsQueueAtShutdown(t *testing.T) {
	c := testConfig(t)
	d, _ := startDaemon(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	s, err := connect(t, d).Subscribe(ctx, "q", client.WithoutResume())
	if err != nil {
		t.Fatal(err)
	}
	const n, size = 2000, 8 << 10 // 16 MiB, more than the stream's window
	p := connect(t, d).NewPublisher("q", client.PublisherOptions{})
	for range n {
		if err := p.Publish(ctx, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); stopDaemon(t, d) }()
	testkit.Eventually(t, 20*time.Second, "the drain has begun", func() bool { return d.ready.String() == "draining" })
	got := 0
	for got < n {
		e, err := s.Next(ctx)
		if err != nil || len(e.Payload) != size {
			t.Fatalf("event %d of %d: %v", got, n, err)
		}
		got++
	}
	<-stopped
}
