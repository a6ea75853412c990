package client

import (
	"errors"
	"fmt"
	"net"
	"time"
)

var (
	// ErrClosed: the Client, Publisher or Subscription was closed by this program. It matches net.ErrClosed.
	ErrClosed = fmt.Errorf("felix client: %w", net.ErrClosed)
	// ErrAckTimeout: the broker did not answer within Config.AckTimeout. The publish stream is given up, since the
	// answers on it are in order; whether the broker has taken the messages is unknown.
	ErrAckTimeout = errors.New("no acknowledgement from the broker in time")
	// ErrConfig: a setting or an option is out of range or contradicts another one. The text names it.
	ErrConfig = errors.New("invalid client setting")
)

// AuthError is a refusal of the token or of what it permits. Trying again with the same token is pointless.
type AuthError struct {
	// Message is the broker's text.
	Message string
	// Forbidden is true if the token was accepted but does not permit the operation.
	Forbidden bool
}

func (e *AuthError) Error() string { return "felix: not authorized: " + e.Message }

// NotFoundError: the broker does not know the stream or cache.
type NotFoundError struct {
	// Message is the broker's text, which names the tenant, the namespace and the stream or cache.
	Message string
}

func (e *NotFoundError) Error() string { return "felix: " + e.Message }

// CursorReason says on which side of the held records a start position lies.
type CursorReason string

const (
	// CursorTooOld: the record is no longer held; Available is the oldest one that is.
	CursorTooOld CursorReason = "too_old"
	// CursorInFuture: the position is past the end of the stream; Available is the next offset to be written.
	CursorInFuture CursorReason = "in_future"
)

// CursorError: a subscription cannot start at the requested offset.
type CursorError struct {
	Reason    CursorReason
	Requested uint64 // offset asked for
	Available uint64 // nearest offset that would be accepted
}

func (e *CursorError) Error() string {
	return fmt.Sprintf("felix: offset %d is %s (available: %d)", e.Requested, cursorText(e.Reason), e.Available)
}

func cursorText(r CursorReason) string {
	if r == CursorInFuture {
		return "in the future"
	}
	return "too old"
}

// Code classifies a ServerError. The values are the protocol's error codes.
type Code uint16

// Codes of ServerError. CodeUnknown stands for a text that belongs to no class.
const (
	CodeUnknown          Code = 0
	CodeUnauthenticated  Code = 1
	CodeForbidden        Code = 2
	CodeNotFound         Code = 3
	CodeInvalidRequest   Code = 4
	CodeShardUnavailable Code = 5
	CodeNotLeader        Code = 6
	CodeUnacknowledged   Code = 9
	CodeOverloaded       Code = 10
	CodeLimitExceeded    Code = 11
	CodeDraining         Code = 12
	CodeStorage          Code = 14
)

// RetryClass says what a caller may do about a failure. The values are the protocol's retry classes.
type RetryClass uint8

const (
	// RetryNow: the request was not carried out and may be sent again at once.
	RetryNow RetryClass = 1
	// RetryAfter: the request was not carried out and may be sent again after a pause.
	RetryAfter RetryClass = 2
	// RetryRedirect: the request belongs to another broker.
	RetryRedirect RetryClass = 3
	// RetryOutcomeUnknown: the request may or may not have been carried out.
	RetryOutcomeUnknown RetryClass = 4
	// RetryFatal: the request will fail again.
	RetryFatal RetryClass = 5
)

// ServerError is any other refusal by the broker.
type ServerError struct {
	// Message is the broker's text.
	Message string
	// Code and Retry are derived from the text (docs/client.md has the table).
	Code  Code
	Retry RetryClass
}

func (e *ServerError) Error() string { return "felix: broker: " + e.Message }

// ConnectionError: the broker cannot be reached, or a connection or stream broke while the operation was under way.
type ConnectionError struct {
	// Op is what the client was doing: "dial", "open stream", "publish", ...
	Op string
	// OutcomeUnknown is true if the request had been handed to the network and its answer was lost: the broker may
	// or may not have carried it out.
	OutcomeUnknown bool
	// Err is the cause, often one of the errors of package transport.
	Err error
}

func (e *ConnectionError) Error() string {
	if e.OutcomeUnknown {
		return fmt.Sprintf("felix: %s: connection lost, outcome unknown: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("felix: %s: %v", e.Op, e.Err)
}

// Unwrap returns the cause.
func (e *ConnectionError) Unwrap() error { return e.Err }

// Timeout reports whether the cause was a timeout.
func (e *ConnectionError) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.Err, &t) && t.Timeout()
}

// TooLargeError: the messages of a publish, or a cache entry, do not fit one frame. Nothing was sent.
type TooLargeError struct {
	Size  int // payload bytes of the frame that would be needed
	Limit int // Config.MaxFrameBytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("felix: too large: the request needs a frame of %d bytes, the frame limit is %d bytes "+
		"(Config.MaxFrameBytes; the broker has the same limit)", e.Size, e.Limit)
}

// UnsupportedError: the broker does not have a capability that the call needs. It was not asked. It matches
// errors.ErrUnsupported.
type UnsupportedError struct {
	// Feature names what is missing.
	Feature string
}

func (e *UnsupportedError) Error() string { return "felix: this broker does not support " + e.Feature }

// Unwrap makes the error match errors.ErrUnsupported.
func (e *UnsupportedError) Unwrap() error { return errors.ErrUnsupported }

// ProtocolError: the broker sent something that the protocol does not allow at this point.
type ProtocolError struct {
	// Op is what the client was doing.
	Op string
	// Detail says what was wrong.
	Detail string
	// Err is the decoding error, or nil.
	Err error
}

func (e *ProtocolError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("felix: %s: %s: %v", e.Op, e.Detail, e.Err)
	}
	return fmt.Sprintf("felix: %s: %s", e.Op, e.Detail)
}

// Unwrap returns the decoding error.
func (e *ProtocolError) Unwrap() error { return e.Err }

// GapError tells a subscription made with FailOnGap that records are missing. The subscription goes on: the next call
// returns the event after the gap.
type GapError struct {
	// Known is true if the missing records are exactly those with offsets From <= n < To. It is false after a resume
	// of a stream without offsets, where nobody can tell how many records were missed, if any.
	Known    bool
	From, To uint64
}

func (e *GapError) Error() string {
	if !e.Known {
		return "felix: subscription resumed at the latest record; records in between may be missing"
	}
	return fmt.Sprintf("felix: %d records are missing, offsets %d to %d", e.To-e.From, e.From, e.To-1)
}

// PublishError reports messages of a Publisher that were not acknowledged.
type PublishError struct {
	// Stream is the Felix stream.
	Stream string
	// Messages is how many messages are affected.
	Messages int
	// Attempts is how often they were sent.
	Attempts int
	// Err is the reason. A ConnectionError with OutcomeUnknown means that the broker may have taken them.
	Err error
}

func (e *PublishError) Error() string {
	return fmt.Sprintf("felix: %d messages for stream %q were not acknowledged: %v", e.Messages, e.Stream, e.Err)
}

// Unwrap returns the reason.
func (e *PublishError) Unwrap() error { return e.Err }

// reconnectTimeoutError says for how long the broker was out of reach.
type reconnectTimeoutError struct {
	after time.Duration
	err   error // the last attempt's
}

func (e *reconnectTimeoutError) Error() string {
	return fmt.Sprintf("no connection within %v: %v", e.after, e.err)
}

func (e *reconnectTimeoutError) Unwrap() error { return e.err }
func (e *reconnectTimeoutError) Timeout() bool { return true }
