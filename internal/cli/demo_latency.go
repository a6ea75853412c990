package cli

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"felix/client"
	"felix/daemon"
)

const (
	latencyMessages = 1000
	latencyWarmup   = 100
	latencyPayload  = 1 << 10 // bytes
	latencyTimeout  = 30 * time.Second
)

// demoLatency measures the time from the publish call to the delivery, with one
// message under way at a time: no message waits behind another one.
func (a *app) demoLatency(ctx context.Context, e daemon.Endpoint, report *demoReport) error {
	ctx, cancel := context.WithTimeoutCause(ctx, latencyTimeout, fmt.Errorf("latency: not finished within %v", latencyTimeout))
	defer cancel()
	sub, err := a.connectTo(ctx, e)
	if err != nil {
		return err
	}
	defer func() { _ = closeClient(sub) }() // nothing was published through it
	pub, err := a.connectTo(ctx, e)
	if err != nil {
		return err
	}
	defer func() { _ = closeClient(pub) }() // every publish was acknowledged
	s, err := sub.Subscribe(ctx, demoLatencyStream)
	if err != nil {
		return err
	}
	h := newHistogram()
	payload := make([]byte, latencyPayload)
	for i := range latencyWarmup + latencyMessages {
		binary.BigEndian.PutUint64(payload, uint64(i))
		took, err := roundTrip(ctx, pub, s, payload)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return fmt.Errorf("latency: message %d: %w", i, err)
		}
		if i >= latencyWarmup {
			if err := h.RecordValue(max(1, int64(took))); err != nil {
				return err
			}
		}
	}
	report.LatencyUS = percentilesOf(h)
	report.LatencyMessages = latencyMessages
	return nil
}

// roundTrip publishes one message and waits for its delivery and its
// acknowledgement.
func roundTrip(ctx context.Context, c *client.Client, s *client.Subscription, payload []byte) (time.Duration, error) {
	acked := make(chan error, 1)
	begin := time.Now()
	go func() { acked <- c.Publish(ctx, demoLatencyStream, payload) }()
	e, err := s.Next(ctx)
	took := time.Since(begin)
	if err != nil {
		return 0, err
	}
	if !bytes.Equal(e.Payload, payload) {
		return 0, errDemo("the content differs from what was sent")
	}
	return took, <-acked
}
