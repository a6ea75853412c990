package udp

import (
	"fmt"

	"felix/platform"
)

// option is a socket option by meaning; each system has a table from it to
// level, name and value.
type option uint8

const (
	optReadBuffer option = iota
	optWriteBuffer
	optForceReadBuffer
	optForceWriteBuffer
	optSegment
	optCoalesce
	optOverflow
	optTOS
	optTClass
	optPacketInfo4
	optPacketInfo6
	optDontFragment4
	optDontFragment6
	optOnlyV6
	numOptions
)

// optionCode is one line of a system's table. A level of -1 marks an option
// that the system lacks.
type optionCode struct {
	level, name int
	on          int // the value that switches it on, for those that are switches
}

// options is the system-call layer of socket options.
type options interface {
	set(o option, value int) error
	get(o option) (int, error)
	// dropped returns the kernel's count of messages dropped at this socket,
	// a 32-bit figure that wraps, where the system has one.
	dropped() (uint32, bool)
}

// codeOf returns the system's code for o.
func codeOf(o option) (optionCode, error) {
	code := optionCodes[o]
	if code.level == -1 {
		return code, fmt.Errorf("socket option: %w", platform.ErrNotSupported)
	}
	return code, nil
}

// enable switches a socket option on.
func enable(opts options, o option) error { return opts.set(o, optionCodes[o].on) }
