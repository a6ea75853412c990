package broker

import (
	"errors"
	"fmt"
	"net"

	"felix/wire"
)

// refusal is an admission error with a fixed text that publishers get to see.
type refusal struct {
	text string
	is   error
}

func (e *refusal) Error() string { return e.text }
func (e *refusal) Unwrap() error { return e.is }

// Admission errors of Submit. Their texts are part of the wire protocol.
var (
	// ErrOverloaded is wrapped by every refusal that passes with time: a full
	// queue, a spent byte budget, a wait that ended.
	ErrOverloaded = errors.New("overloaded")

	// ErrConnBytes: the connection's byte budget is spent (WaitNone).
	ErrConnBytes error = &refusal{wire.TextConnByteBudget, ErrOverloaded}
	// ErrProcessBytes: the process's byte budget is spent (WaitNone).
	ErrProcessBytes error = &refusal{wire.TextByteBudget, ErrOverloaded}
	// ErrQueueFull: the stream has too many publications waiting (WaitNone).
	ErrQueueFull error = &refusal{wire.TextQueueFull, ErrOverloaded}
	// ErrAdmissionTimeout: the bounded wait for a byte budget ended.
	ErrAdmissionTimeout error = &refusal{wire.TextAdmissionTimeout, ErrOverloaded}
	// ErrEnqueueTimeout: the bounded wait for room in the queue ended.
	ErrEnqueueTimeout error = &refusal{wire.TextEnqueueTimeout, ErrOverloaded}
	// ErrCommitTimeout is for callers that stop waiting for a commit after
	// Options.CommitWait.
	ErrCommitTimeout error = &refusal{wire.TextCommitTimeout, ErrOverloaded}
	// ErrAdmissionClosed: the broker or the account is closed.
	ErrAdmissionClosed error = &refusal{wire.TextAdmissionClosed, net.ErrClosed}
	// ErrQueueClosed completes an accepted publication that a closing broker
	// gave up before it reached the subscribers.
	ErrQueueClosed error = &refusal{wire.TextQueueClosed, net.ErrClosed}

	// ErrTooManySubscriptions: the account has Options.MaxSubscriptionsPerConn
	// open subscriptions.
	ErrTooManySubscriptions = errors.New(wire.TextMaxSubscriptions)
	// ErrClosed is returned by everything but Submit once the broker is closed.
	ErrClosed = fmt.Errorf("broker: %w", net.ErrClosed)
)

// NotFoundError: the stream or the cache is not registered.
type NotFoundError struct {
	// Cache tells a cache from a stream.
	Cache bool
	Key   Key
}

func (e *NotFoundError) Error() string {
	if e.Cache {
		return wire.CacheNotFoundText(e.Key.Tenant, e.Key.Namespace, e.Key.Name)
	}
	return wire.StreamNotFoundText(e.Key.Tenant, e.Key.Namespace, e.Key.Name)
}

// StreamGoneError: the stream was deleted while a caller still held it. A later
// stream of the same name is another stream with another handle.
type StreamGoneError struct{ Handle uint64 }

func (e *StreamGoneError) Error() string {
	return fmt.Sprintf("stream handle %d is no longer active", e.Handle)
}

// Unwrap makes the error match net.ErrClosed.
func (e *StreamGoneError) Unwrap() error { return net.ErrClosed }

// CursorError: the requested start position is not in the replay ring.
type CursorError struct {
	Reason wire.CursorReason
	// Requested is the offset asked for, Available the oldest one held (too old)
	// or the next one to be assigned (in the future).
	Requested uint64
	Available uint64
}

func (e *CursorError) Error() string {
	return fmt.Sprintf("subscribe cursor %v: requested offset %d, available %d", e.Reason, e.Requested, e.Available)
}

// InvalidNameError: a tenant, namespace, stream or cache name cannot be used.
type InvalidNameError struct{ What, Reason string }

func (e *InvalidNameError) Error() string {
	return fmt.Sprintf("invalid %s: %s", e.What, e.Reason)
}

// LimitError: no further object of that kind can be created.
type LimitError struct {
	What  string
	Limit int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("too many %s: at most %d", e.What, e.Limit)
}

// InvalidFrameError: a publication's frame is not a shared event frame, or does
// not hold what its Count and Bytes say.
type InvalidFrameError struct{ Reason string }

func (e *InvalidFrameError) Error() string { return "invalid publication: " + e.Reason }

// CacheFullError: a value would take the caches over Options.CacheMaxBytes, and
// nothing that has expired is left to make room.
type CacheFullError struct {
	// Need is what the entry takes, Used what the others hold, in bytes.
	Need, Used, Limit int64
}

func (e *CacheFullError) Error() string {
	return fmt.Sprintf("cache full: entry needs %d bytes, %d of %d in use", e.Need, e.Used, e.Limit)
}
