package client

import (
	"context"
	"errors"
	"fmt"

	"felix/wire"
)

// Publish sends one message to a Felix stream of the client's namespace and, unless told otherwise, waits for the
// broker's acknowledgement. The payload may be changed after the call has returned.
//
// If the context ends first, its error is returned and the message may or may not arrive. Errors: *TooLargeError (nothing was
// sent), *AuthError, *NotFoundError, *ServerError, *ConnectionError, ErrClosed.
func (c *Client) Publish(ctx context.Context, stream string, payload []byte, opts ...PublishOption) error {
	one := [1][]byte{payload}
	return c.publish(ctx, stream, one[:], opts)
}

// PublishBatch sends messages in one frame: they arrive in order, and the broker takes all of them or none. An empty batch
// is legal. See Publish.
func (c *Client) PublishBatch(ctx context.Context, stream string, payloads [][]byte, opts ...PublishOption) error {
	return c.publish(ctx, stream, payloads, opts)
}

func (c *Client) publish(ctx context.Context, stream string, payloads [][]byte, opts []PublishOption) error {
	o, err := mergePublishOptions(c.cfg.Retry, opts)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	h := c.publishHeader(stream, o)
	k := c.calls.Get().(*call)
	if err := k.encode(h, payloads, c.cfg.MaxFrameBytes); err != nil {
		c.calls.Put(k)
		return err
	}
	lane := c.routes.lane(stream)
	for attempt := 1; ; attempt++ {
		err := c.send(ctx, lane, k)
		if errors.Is(err, errAbandoned) {
			return ctx.Err() // k still belongs to the publish stream
		}
		again := notSent(err) || o.retry == AtLeastOnce && repeatable(err)
		if !again || attempt >= c.cfg.MaxAttempts || ctx.Err() != nil || c.isClosed() {
			c.calls.Put(k)
			return err
		}
		if attempt == 1 && notSent(err) {
			continue
		}
		if err := c.sleep(ctx, c.cfg.Backoff.pause(attempt)); err != nil {
			c.calls.Put(k)
			return err
		}
	}
}

func (c *Client) publishHeader(stream string, o PublishOption) wire.PublishHeader {
	h := wire.PublishHeader{
		TenantID: c.cfg.Tenant, Namespace: c.cfg.Namespace, Stream: stream,
		Acked: o.ack != AckNone, HasKey: o.hasKey, Key: o.key,
	}
	switch o.ack {
	case AckPerMessage:
		h.Ack = wire.AckPerMessage
	case AckDefault, AckPerBatch:
		h.Ack = wire.AckPerBatch
	}
	return h
}

// mergePublishOptions adds the options up; later ones win.
func mergePublishOptions(retry Retry, opts []PublishOption) (PublishOption, error) {
	all := PublishOption{retry: retry}
	for _, o := range opts {
		if o.set&setAck != 0 {
			all.ack = o.ack
		}
		if o.set&setKey != 0 {
			all.hasKey, all.key = o.hasKey, o.key
		}
		if o.set&setRetry != 0 {
			all.retry = o.retry
		}
		all.set |= o.set
	}
	switch {
	case all.ack > AckNone:
		return all, fmt.Errorf("%w: ack mode %d", ErrConfig, all.ack)
	case all.retry > AtLeastOnce:
		return all, fmt.Errorf("%w: retry policy %d", ErrConfig, all.retry)
	case all.retry == AtLeastOnce && all.ack == AckNone && all.set&setRetry != 0:
		return all, fmt.Errorf("%w: AtLeastOnce needs acknowledgements", ErrConfig)
	case all.ack == AckNone:
		all.retry = AtMostOnce
	}
	return all, nil
}

// send makes one attempt. errAbandoned says that ctx ended while the request was under way.
func (c *Client) send(ctx context.Context, lane *lane, k *call) error {
	ps, err := lane.stream(ctx)
	if err != nil {
		return err
	}
	if err := lane.room.acquire(ctx, k.size()); err != nil {
		return err
	}
	ps.submit(&k.request)
	select {
	case err := <-k.result:
		return err
	case <-ctx.Done():
	}
	if ps.withdraw(&k.request) {
		return ctx.Err()
	}
	select {
	case err := <-k.result:
		return err
	default:
		return errAbandoned
	}
}

var errAbandoned = errors.New("publish called off")

// call is a request that a goroutine waits for.
type call struct {
	request
	result chan error // buffered
}

func newCall() any {
	k := &call{result: make(chan error, 1)}
	k.owner = k
	return k
}

func (k *call) done(_ *request, err error) { k.result <- err }

// maxPooledFrame bounds what an idle call may hold.
const maxPooledFrame = 1 << 20

// encode makes the frame.
func (k *call) encode(h wire.PublishHeader, payloads [][]byte, limit int) (err error) {
	k.count, k.bytes = len(payloads), 0
	for _, p := range payloads {
		k.bytes += len(p)
	}
	if size := h.PayloadLen(k.count, k.bytes); size > limit {
		return &TooLargeError{Size: size, Limit: limit}
	}
	if cap(k.frame) > maxPooledFrame {
		k.frame = nil
	}
	k.flags = h.Flags()
	k.frame, err = wire.AppendPublishBatch(k.frame[:0], h, payloads)
	if err != nil {
		return fmt.Errorf("felix: publish: %w", err)
	}
	return nil
}
