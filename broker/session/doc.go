// Package session speaks the Felix protocol on one connection: it authenticates
// every QUIC stream a client opens, takes publishes, cache requests and
// subscriptions from it, answers in order, and writes events to the streams it
// opens for subscriptions.
//
// The package knows no QUIC: it works over the small interfaces [Conn],
// [Stream], [ReceiveStream] and [SendStream], and over a broker.Broker. One
// goroutine reads each client-opened stream and writes its replies whenever it
// has nothing left to read; one goroutine per subscription drains its queue and
// writes straight to its own stream, so that a stream nobody reads stops
// nothing else.
//
// What the broker promises to its clients is in docs/semantics.md.
package session
