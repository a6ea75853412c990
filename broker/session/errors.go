package session

import (
	"fmt"
	"net"

	"felix/wire"
)

var (
	// ErrDraining is what Serve returns for a connection that arrives during or
	// after Drain. It wraps net.ErrClosed.
	ErrDraining = fmt.Errorf("session: %s: %w", wire.ShutdownReason, net.ErrClosed)

	// errGone is why replies are given up when their connection ends.
	errGone = fmt.Errorf("session: connection ended: %w", net.ErrClosed)
)

// textAuthTimeout is the error text for a stream that did not authenticate in
// time.
const textAuthTimeout = "authentication timeout"

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
