package e2e

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"felix/client"
	"felix/internal/testkit"
)

// TestThousandSubscribers has one publisher and 1000 subscribers over 10
// connections. Every subscriber is complete, and each batch is one frame that
// all of them share, never taken apart nor put together again.
func TestThousandSubscribers(t *testing.T) {
	const conns, subs, batches, perBatch, size = 10, 1000, 2, 8, 1 << 10
	d := testkit.StartDaemon(t, nil)
	cfg := clientConfig(t, d)
	cfg.EventConns = conns
	reader := connect(t, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), 120*time.Second)
	defer cancel()
	read := func(i int, sub *client.Subscription) {
		for n := range uint64(batches * perBatch) {
			e, err := sub.Next(ctx)
			if err != nil || len(e.Payload) != size || binary.BigEndian.Uint64(e.Payload) != n {
				t.Errorf("subscription %d, event %d: %d bytes, %v", i, n, len(e.Payload), err)
				return
			}
		}
	}
	var subscribing, reading sync.WaitGroup
	for i := range conns {
		subscribing.Go(func() {
			for j := range subs / conns {
				sub, err := reader.Subscribe(ctx, "s")
				if err != nil {
					t.Errorf("subscription %d of %d: %v", j, i, err)
					return
				}
				reading.Go(func() { read(i*subs/conns+j, sub) })
			}
		})
	}
	subscribing.Wait()
	if t.Failed() {
		t.FailNow()
	}
	if n := len(reader.Connections()); n != conns && n != conns+1 { // one more dialed first, for whoever comes
		t.Errorf("%d connections", n)
	}
	c := connect(t, clientConfig(t, d))
	start := time.Now()
	for b := range uint64(batches) {
		payloads := make([][]byte, perBatch)
		for i := range payloads {
			payloads[i] = numbered(b*perBatch+uint64(i), size)
		}
		if err := c.PublishBatch(ctx, "s", payloads); err != nil {
			t.Fatal(err)
		}
	}
	reading.Wait()
	t.Logf("%d events to %d subscribers in %v", batches*perBatch, subs, time.Since(start))

	fanout := checkLedger(t, d, "s")["fanout"]
	if want := uint64(subs * batches * perBatch); fanout.In != want || fanout.Out != want {
		t.Errorf("fanout: %+v, want %d in and out", fanout, want)
	}
	for name, want := range map[string]float64{
		"felix_broker_publish_published_batches_total": batches,
		"felix_broker_publish_split_batches_total":     0,
		"felix_broker_fanout_offered_batches_total":    subs * batches,
		"felix_session_event_frames_total":             subs * batches,
	} {
		testkit.Eventually(t, 10*time.Second, fmt.Sprintf("%s is %v", name, want), func() bool { return metric(t, d, name) == want })
	}
}
