// Package client is the Go client of the Felix broker: publishing, subscribing and the cache over QUIC.
//
// [Connect] dials a broker, authenticates and returns a [Client], which is safe for concurrent use. Further
// connections and streams are opened when they are first needed and are made again when they break.
//
// Publishing is acknowledged by default: [Client.Publish] and [Client.PublishBatch] return when the broker has answered.
// A [Publisher] keeps many batches under way. [Client.Subscribe] returns a [Subscription], which is read with Next, All
// or Each; nothing is queued between the QUIC stream and the reader, so a slow reader slows its own stream down and
// the client itself never drops an event. [Client.Cache] gives access to a cache.
//
// The delivery guarantees, and what happens when a connection breaks, are described in docs/client.md.
package client
