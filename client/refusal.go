package client

import (
	"errors"
	"io/fs"
	"net"
	"strings"

	"felix/transport"
	"felix/wire"
)

// refusals maps words of the broker's error texts to what they mean; the first match counts. The texts are part of the
// protocol, their wording beyond these words is not.
var refusals = []struct {
	word  string
	code  Code
	retry RetryClass
}{
	// These two quote names, which may hold any of the words below.
	{"stream not found:", CodeNotFound, RetryAfter},
	{"cache scope not found:", CodeNotFound, RetryAfter},
	{"auth failed", CodeUnauthenticated, RetryFatal},
	{"auth required", CodeUnauthenticated, RetryFatal},
	{"unauthorized", CodeUnauthenticated, RetryFatal},
	{"forbidden", CodeForbidden, RetryFatal},
	{"tenant mismatch", CodeForbidden, RetryFatal},
	{"permission", CodeForbidden, RetryFatal},
	{"not found", CodeNotFound, RetryAfter},
	{"unknown tenant", CodeNotFound, RetryAfter},
	{"unknown stream", CodeNotFound, RetryAfter},
	{"unknown cache", CodeNotFound, RetryAfter},
	{"commit timeout", CodeUnacknowledged, RetryOutcomeUnknown},
	{"dropped response", CodeUnacknowledged, RetryOutcomeUnknown},
	{"storage error", CodeStorage, RetryOutcomeUnknown},
	{"queue closed", CodeDraining, RetryNow},
	{"admission closed", CodeDraining, RetryNow},
	{"draining", CodeDraining, RetryNow},
	{"shutting down", CodeDraining, RetryNow},
	{"no longer active", CodeShardUnavailable, RetryNow},
	{"overloaded", CodeOverloaded, RetryAfter},
	{"queue full", CodeOverloaded, RetryAfter},
	{"byte budget", CodeOverloaded, RetryAfter},
	{"timed out", CodeOverloaded, RetryAfter},
	{"exceed", CodeLimitExceeded, RetryFatal},
	{"too large", CodeLimitExceeded, RetryFatal},
	{"malformed", CodeInvalidRequest, RetryFatal},
	{"missing request_id", CodeInvalidRequest, RetryFatal},
	{"unsupported frame", CodeInvalidRequest, RetryFatal},
	{"unexpected message", CodeInvalidRequest, RetryFatal},
	{"token", CodeUnauthenticated, RetryFatal},
	{"not leader", CodeNotLeader, RetryRedirect},
}

// refusal turns an error text of the broker into an error.
func refusal(text string) error {
	lower := strings.ToLower(text)
	for _, r := range refusals {
		if !strings.Contains(lower, r.word) {
			continue
		}
		switch r.code {
		case CodeUnauthenticated, CodeForbidden:
			return &AuthError{Message: text, Forbidden: r.code == CodeForbidden}
		case CodeNotFound:
			return &NotFoundError{Message: text}
		default:
			return &ServerError{Message: text, Code: r.code, Retry: r.retry}
		}
	}
	return &ServerError{Message: text, Retry: RetryFatal}
}

// passing reports whether an attempt to reach the broker, open a stream or subscribe that failed with err may succeed
// later without anybody changing something.
func passing(err error) bool {
	var server *ServerError
	if errors.As(err, &server) {
		return server.Retry == RetryNow || server.Retry == RetryAfter
	}
	var lost *ConnectionError
	if !errors.As(err, &lost) {
		return false
	}
	var (
		handshake *transport.HandshakeError
		file      *fs.PathError
		addr      *net.AddrError
	)
	return !errors.As(err, &handshake) && !errors.As(err, &file) && !errors.As(err, &addr)
}

// repeatable reports whether a publish that failed with err may be sent again under AtLeastOnce.
func repeatable(err error) bool {
	var server *ServerError
	if errors.As(err, &server) {
		return server.Retry == RetryNow || server.Retry == RetryAfter || server.Retry == RetryOutcomeUnknown
	}
	var (
		lost *ConnectionError
		late *reconnectTimeoutError
	)
	return errors.As(err, &lost) && !errors.As(err, &late)
}

// brokenStream reports whether err ends only the stream it came from. Everything else that is not a read deadline ends
// the connection.
func brokenStream(err error) bool {
	var (
		cancelled *transport.StreamError
		tooLarge  *wire.FrameTooLargeError
	)
	return errors.As(err, &cancelled) || errors.As(err, &tooLarge) || errors.Is(err, wire.ErrBadMagic) ||
		errors.Is(err, wire.ErrBadVersion) || errors.Is(err, transport.ErrStreamClosed)
}
