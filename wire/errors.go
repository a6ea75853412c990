package wire

import (
	"errors"
	"fmt"
)

var (
	// ErrShortHeader says that fewer than HeaderLen bytes were given.
	ErrShortHeader = errors.New("wire: short frame header")
	// ErrBadMagic says that the first four bytes are not Magic. Fatal for the QUIC stream.
	ErrBadMagic = errors.New("wire: bad frame magic")
	// ErrBadVersion says that the header's version is not Version. Fatal for the QUIC stream.
	ErrBadVersion = errors.New("wire: unsupported frame version")
	// ErrUnsupportedFlags says that the flags name no layout this decoder knows.
	ErrUnsupportedFlags = errors.New("wire: unsupported frame flags")

	// ErrUnknownType is wrapped by the *MessageError of a JSON message whose type
	// is not one of protocol version 1.
	ErrUnknownType = errors.New("unknown message type")

	// ErrMalformedPrefix says that the request id or the ack mode of an acked
	// publish batch cannot be read, so that no answer could be matched to it.
	ErrMalformedPrefix = errors.New("wire: malformed publish prefix")
	// ErrMalformedBatch says that a publish batch is unreadable after its acked
	// prefix: key, ids, count or items.
	ErrMalformedBatch = errors.New("wire: malformed publish batch")
	// ErrMalformedEvents says that an event batch is unreadable.
	ErrMalformedEvents = errors.New("wire: malformed event batch")
	// ErrMalformedAck says that a binary publish ack is unreadable.
	ErrMalformedAck = errors.New("wire: malformed publish ack")

	// ErrIDTooLong says that an id or key is longer than MaxIDLen bytes.
	ErrIDTooLong = errors.New("wire: id longer than 65535 bytes")
	// ErrInvalidUTF8 says that text to be encoded is not UTF-8.
	ErrInvalidUTF8 = errors.New("wire: text is not UTF-8")
	// ErrInvalidAckMode says that an ack mode has no encoding where it was used.
	ErrInvalidAckMode = errors.New("wire: ack mode not allowed here")
	// ErrFrameOverflow says that a frame's payload would not fit its 32-bit length.
	ErrFrameOverflow = errors.New("wire: payload longer than 4 GiB")
)

// FrameTooLargeError reports a header whose payload length is over the
// receiver's limit. It is fatal for the QUIC stream. Both fields are in bytes of
// payload, the header not counted.
type FrameTooLargeError struct {
	Length uint32
	Limit  int
}

// Error implements error.
func (e *FrameTooLargeError) Error() string {
	return fmt.Sprintf("wire: frame payload of %d bytes exceeds the limit of %d", e.Length, e.Limit)
}

// MessageError reports a JSON message that cannot be decoded or encoded. It
// never quotes the message's content, which may hold a token.
type MessageError struct {
	Type  string // the message's type, cut to a few bytes; "" when it was not readable
	Field string // the field at fault, "" when the message as a whole is
	Err   error  // the reason
}

// Error implements error.
func (e *MessageError) Error() string {
	where := "wire: message"
	if e.Type != "" {
		where += fmt.Sprintf(" %q", e.Type)
	}
	if e.Field != "" {
		where += fmt.Sprintf(": field %q", e.Field)
	}
	return fmt.Sprintf("%s: %v", where, e.Err)
}

// Unwrap returns the reason.
func (e *MessageError) Unwrap() error { return e.Err }
