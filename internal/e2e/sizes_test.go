package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"felix/client"
	"felix/internal/testkit"
	"felix/wire"
)

// TestMessageSizes is field case F19: messages of all sizes up to the frame limit
// come through to an idle subscriber intact, live and out of the ring; a larger
// one is refused by the client, and by the daemon if the client lets it pass.
func TestMessageSizes(t *testing.T) {
	d := testkit.StartDaemon(t, nil)
	c := connect(t, clientConfig(t, d))
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	sub, err := connect(t, clientConfig(t, d)).Subscribe(ctx, "s", client.WithoutResume())
	if err != nil {
		t.Fatal(err)
	}
	var tooLarge *client.TooLargeError
	if err := c.Publish(ctx, "s", make([]byte, wire.DefaultMaxFrameBytes)); !errors.As(err, &tooLarge) {
		t.Fatalf("a payload as large as a frame: %v", err)
	}
	limit := wire.DefaultMaxFrameBytes - (tooLarge.Size - wire.DefaultMaxFrameBytes) // largest payload

	sizes := []int{0, 1, 65535, 65536, 1 << 20, limit - 1, limit}
	events := uint64(0)
	for _, ack := range []client.AckMode{client.AckPerBatch, client.AckNone} {
		for _, size := range sizes {
			payload := bytes.Repeat([]byte{byte(size), 0x5a, byte(size >> 8)}, size/3+1)[:size]
			if err := c.Publish(ctx, "s", payload, client.WithAck(ack)); err != nil {
				t.Fatalf("%d bytes, ack mode %d: %v", size, ack, err)
			}
			e, err := sub.Next(ctx)
			if err != nil || !bytes.Equal(e.Payload, payload) {
				t.Fatalf("%d bytes, ack mode %d: got %d bytes, %v", size, ack, len(e.Payload), err)
			}
			events++
		}
	}

	replay, err := c.Subscribe(ctx, "s", client.FromOffset(events-1))
	if err != nil {
		t.Fatal(err)
	}
	if e, err := replay.Next(ctx); err != nil || len(e.Payload) != limit {
		t.Errorf("the largest message out of the ring: %d bytes, %v", len(e.Payload), err)
	}

	if err := c.Publish(ctx, "s", make([]byte, limit+1)); !errors.As(err, &tooLarge) || tooLarge.Size != tooLarge.Limit+1 {
		t.Errorf("one byte more: %v", err)
	}
	cfg := clientConfig(t, d)
	cfg.MaxFrameBytes = 2 * wire.DefaultMaxFrameBytes
	lax := connect(t, cfg)
	if err := lax.Publish(ctx, "s", make([]byte, limit+1)); err == nil || !strings.Contains(err.Error(), fmt.Sprint(wire.DefaultMaxFrameBytes)) {
		t.Errorf("one byte more past the client's check: %v, want an error that names the limit", err)
	}
	if err := lax.Publish(ctx, "s", []byte("after")); err != nil {
		t.Errorf("publish after the refusal: %v", err)
	}
	if e, err := sub.Next(ctx); err != nil || string(e.Payload) != "after" {
		t.Errorf("after the refusals: %d bytes, %v", len(e.Payload), err)
	}
	if st := checkLedger(t, d, "s")["fanout"]; len(st.Dropped) > 0 {
		t.Errorf("ledger: %+v, want nothing dropped", st)
	}
}
