// Package broker is the core of the message broker: it knows tenants,
// namespaces, streams and caches, admits publications within byte budgets,
// numbers them, keeps the newest ones for replay, and fans each one out to
// bounded queues, one per subscription. It does no I/O and knows no
// connections; package session feeds it and drains its queues.
//
// A publication arrives as one immutable, already encoded event frame, and the
// same bytes are shared by the replay ring and by every subscription's queue.
// The garbage collector owns that memory: whoever holds a frame may keep it for
// ever and must never write to it.
//
// Unless a type says otherwise, every exported method may be called from any
// number of goroutines at once. The order in which locks are taken is in
// docs/lock-order.md.
package broker
