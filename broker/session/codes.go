package session

import "fmt"

// Code is an application error code that the broker puts into STOP_SENDING and
// RESET_STREAM, to say why it ended a stream. On a control stream an error
// message with the details comes first wherever the protocol allows one.
//
// Connections are only ever closed with code 0 and the reason "broker shutting
// down", after a drain, and with CodeAuthTimeout and the reason "authentication
// timeout".
type Code uint64

const (
	// CodeNone: the broker has no use for what may still come on the stream. It
	// follows the answer to a subscribe and to a cache request without id, after
	// which the protocol ends the stream, and is no failure.
	CodeNone Code = 0
	// CodeAuthTimeout: no auth message came within the time limit. As the code of
	// a connection's close: none that was accepted.
	CodeAuthTimeout Code = 1
	// CodeUnauthenticated: the auth message was refused, was missing or came
	// twice.
	CodeUnauthenticated Code = 2
	// CodeForbidden: the token does not allow the request, or the request names
	// another tenant than the token.
	CodeForbidden Code = 3
	// CodeMalformed: the bytes are no frames, or a frame's content cannot be
	// decoded.
	CodeMalformed Code = 4
	// CodeFrameTooLarge: a frame's payload exceeds the limit, 16 MiB by default
	// and 64 KiB before authentication.
	CodeFrameTooLarge Code = 5
	// CodeUnexpected: the message or the frame layout does not belong on this
	// kind of stream or in this direction.
	CodeUnexpected Code = 6
	// CodeRefused: a subscription could not be opened, or a cache request
	// without id failed.
	CodeRefused Code = 7
	// CodeShuttingDown: the broker is draining and takes no further requests.
	CodeShuttingDown Code = 8
	// CodeStalled: the client did not take the replies that were owed at the end
	// of the stream.
	CodeStalled Code = 9
	// CodeFrameTimeout: a large frame was begun and its rest did not come.
	CodeFrameTimeout Code = 10
)

var codeNames = [...]string{
	CodeNone:            "none",
	CodeAuthTimeout:     "auth_timeout",
	CodeUnauthenticated: "unauthenticated",
	CodeForbidden:       "forbidden",
	CodeMalformed:       "malformed",
	CodeFrameTooLarge:   "frame_too_large",
	CodeUnexpected:      "unexpected",
	CodeRefused:         "refused",
	CodeShuttingDown:    "shutting_down",
	CodeStalled:         "stalled",
	CodeFrameTimeout:    "frame_timeout",
}

// String returns the code's name.
func (c Code) String() string {
	if c < Code(len(codeNames)) {
		return codeNames[c]
	}
	return fmt.Sprintf("code(%d)", uint64(c))
}
