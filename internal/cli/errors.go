package cli

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"felix/bench/probe"
	"felix/client"
	"felix/daemon"
)

// Exit codes of felix.
const (
	exitOK      = 0
	exitError   = 1
	exitUsage   = 2
	exitInvalid = 3   // a measurement that is none
	exitSignal  = 128 // plus the number of the signal, as shells have it
)

// errQuiet ends a command without a message and with success: the reader of
// its output has gone away.
var errQuiet = errors.New("output closed")

// interruptedError ends a command without a message, by a signal.
type interruptedError struct{ signal syscall.Signal }

func (e *interruptedError) Error() string { return e.signal.String() }

// usageError is wrong use of the command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// hintError is an error with what to do about it.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return fmt.Sprintf("%v (%s)", e.err, e.hint) }
func (e *hintError) Unwrap() error { return e.err }

func hint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &hintError{err, fmt.Sprintf(format, args...)}
}

// opError says what was being done: "what: why".
func opError(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", op, explain(err))
}

// A frameLimitError is a request that no frame holds, in the terms of those who
// set the limit.
type frameLimitError struct {
	*client.TooLargeError
}

func (e *frameLimitError) Error() string {
	return fmt.Sprintf("too large: the request needs a frame of %d bytes, the frame limit is %d bytes (set %s for felix and max_frame_bytes for felixd)",
		e.Size, e.Limit, frameLimitVariable)
}

func (e *frameLimitError) Unwrap() error { return e.TooLargeError }

// explain replaces errors whose text is for programmers.
func explain(err error) error {
	var large *client.TooLargeError
	var explained *frameLimitError
	if errors.As(err, &large) && !errors.As(err, &explained) {
		return &frameLimitError{large}
	}
	return err
}

// message is the one line that an error is reported with: what, why, what to
// do. The parts come from several packages, some of which begin with the
// project's name.
func message(err error) string {
	text := daemon.OneLine(explain(err))
	for _, prefix := range []string{"felix: ", "felix client: "} {
		text = strings.ReplaceAll(text, ": "+prefix, ": ")
		text = strings.TrimPrefix(text, prefix)
	}
	return "felix: " + text
}

// exitCode is the code a command that ended with err exits with.
func exitCode(err error) int {
	var usage *usageError
	var interrupted *interruptedError
	var invalid *probe.InvalidMeasurement
	switch {
	case err == nil, errors.Is(err, errQuiet):
		return exitOK
	case errors.As(err, &interrupted):
		return exitSignal + int(interrupted.signal)
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &invalid):
		return exitInvalid
	}
	return exitError
}
