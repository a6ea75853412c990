//go:build !race

package client

import (
	"context"
	"testing"
)

// Neither publishing nor reading allocates per message: 64 messages cost at most the memory of their frame.
func TestAllocations(t *testing.T) {
	c := ackClient(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	payloads := make([][]byte, 64)
	for i := range payloads {
		payloads[i] = make([]byte, 100)
	}
	p := c.NewPublisher("s", PublisherOptions{})
	s := loopSubscription(c, 100)
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, f := range map[string]func(){
		"publish batch acked": func() { check(c.PublishBatch(ctx, "s", payloads)) },
		"publish batch":       func() { check(c.PublishBatch(ctx, "s", payloads, WithAck(AckNone))) },
		"publisher": func() {
			for _, payload := range payloads {
				check(p.Publish(ctx, payload))
			}
		},
		"next": func() {
			for range payloads {
				_, err := s.Next(ctx)
				check(err)
			}
		},
	} {
		limit := 0.0
		if name == "next" {
			limit = 1 // the frame
		}
		if got := testing.AllocsPerRun(2000, f); got > limit {
			t.Errorf("%s: %.1f allocations for 64 messages, want at most %.0f", name, got, limit)
		}
	}
}
