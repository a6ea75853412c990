package client

import "context"

// Publish sends one message to a Felix stream of the client's namespace and, unless told otherwise, waits for the
// broker's acknowledgement. The payload may be changed after the call has returned.
//
// If the context ends first, its error is returned and the message may or may not arrive.
func (c *Client) Publish(ctx context.Context, stream string, payload []byte, opts ...PublishOption) error {
	return ErrClosed
}

// PublishBatch sends messages in one frame: they arrive in order, and the broker takes all of them or none. An empty batch
// is legal. See Publish.
func (c *Client) PublishBatch(ctx context.Context, stream string, payloads [][]byte, opts ...PublishOption) error {
	return ErrClosed
}
