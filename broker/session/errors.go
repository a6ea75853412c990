package session

import (
	"errors"
	"fmt"
	"net"

	"felix/wire"
)

var (
	// ErrDraining is what Serve returns for a connection that arrives during or
	// after Drain. It wraps net.ErrClosed.
	ErrDraining = fmt.Errorf("session: %s: %w", wire.ShutdownReason, net.ErrClosed)

	// errFrameStalled ends a stream whose large frame does not get on.
	errFrameStalled = errors.New("session: frame not completed in time")

	// errGone is why replies are given up when their connection ends.
	errGone = fmt.Errorf("session: connection ended: %w", net.ErrClosed)
)

// textAuthTimeout is the error text for a stream, and the close reason for a
// connection, that did not authenticate in time.
const textAuthTimeout = "authentication timeout"

// textFrameTimeout is the error text for a frame that was begun and not
// completed in time.
const textFrameTimeout = "frame timeout"

// replyTooLargeError: an answer does not fit into a frame.
type replyTooLargeError struct {
	typ         string
	size, limit int
}

func (e *replyTooLargeError) Error() string {
	return fmt.Sprintf("%s of %d bytes exceeds the frame limit of %d bytes", e.typ, e.size, e.limit)
}

// frameTooLargeText says why a frame was refused.
func frameTooLargeText(e *wire.FrameTooLargeError, authenticated bool) string {
	text := fmt.Sprintf("frame of %d bytes exceeds the limit of %d bytes", e.Length, e.Limit)
	if !authenticated {
		text += " before authentication"
	}
	return text
}
