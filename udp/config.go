package udp

import (
	"fmt"
	"syscall"
)

// Switch is the setting of one optional socket feature.
type Switch uint8

// The settings of a Switch. The zero value is Auto.
const (
	Auto Switch = iota // use the feature when the host has it
	On                 // Listen fails when the host lacks it
	Off                // never use it
)

// String returns auto, on or off.
func (s Switch) String() string {
	switch s {
	case Auto:
		return "auto"
	case On:
		return "on"
	case Off:
		return "off"
	}
	return fmt.Sprintf("Switch(%d)", uint8(s))
}

// ParseSwitch is the inverse of Switch.String. It accepts exactly auto, on and
// off.
func ParseSwitch(s string) (Switch, error) {
	for _, v := range [...]Switch{Auto, On, Off} {
		if s == v.String() {
			return v, nil
		}
	}
	return Auto, fmt.Errorf("%q: want auto, on or off", s)
}

// MarshalText writes the form of Switch.String.
func (s Switch) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the form of Switch.String.
func (s *Switch) UnmarshalText(b []byte) error {
	v, err := ParseSwitch(string(b))
	if err == nil {
		*s = v
	}
	return err
}

const (
	// DefaultBuffer is the size in bytes that Listen asks for in each direction
	// when Config names none: some 5 ms of a 10 Gbit/s path.
	DefaultBuffer = 8 << 20
	// MinBuffer is the smallest size in bytes that Listen falls back to by
	// halving where the system refuses a request instead of cutting it down.
	MinBuffer = 64 << 10
)

// Config holds the settings of a socket. The zero value is the default.
type Config struct {
	// ReadBuffer and WriteBuffer are the kernel socket buffers to ask for, in
	// bytes; 0 means DefaultBuffer. They are set once, by Listen.
	ReadBuffer, WriteBuffer int
	// GSO is kernel segmentation of sends (UDP_SEGMENT, Linux).
	GSO Switch
	// GRO is coalesced receiving (UDP_GRO, Linux).
	GRO Switch
	// SendMMsg is several messages a send call (sendmmsg, sendmsg_x).
	SendMMsg Switch
	// RecvMMsg is several messages a receive call (recvmmsg, recvmsg_x).
	RecvMMsg Switch
	// ECN is the ECN codepoint of RFC 3168. Off removes it from the control
	// data in both directions.
	ECN Switch
	// DontFragment keeps the host from fragmenting datagrams, as RFC 9000
	// section 14 asks; a datagram over the interface's MTU then gives EMSGSIZE.
	DontFragment Switch
	// Notice, if not nil, is told what an operator should know about. It is
	// called from Listen and from sends, must not block, and may be called
	// concurrently.
	Notice func(Notice)
	// Hooks are for tests only.
	Hooks Hooks
}

// Hooks provoke failures. They are meant for tests; a production socket leaves
// them zero.
type Hooks struct {
	// NoClamp plans segmented sends without regard to the kernel's limits on
	// bytes and segments, so that it refuses them.
	NoClamp bool
	// RefuseSend, if not nil, is asked before every message is handed to the
	// kernel. An errno other than 0 is taken as the kernel's answer and the
	// message stays unsent. It may be called concurrently.
	RefuseSend func(Attempt) syscall.Errno
}

// Attempt describes a message about to be sent.
type Attempt struct {
	Datagrams int // 1 or more
	Bytes     int // payload of all of them
	Segment   int // value of the segment option in bytes, 0 without one
}

// validate reports settings outside their range.
func (c *Config) validate() error {
	for _, f := range c.features() {
		if *f.value > Off {
			return fmt.Errorf("%s: %v is no setting", f.name, *f.value)
		}
	}
	if c.ReadBuffer < 0 || c.WriteBuffer < 0 {
		return fmt.Errorf("a socket buffer cannot have %d bytes", min(c.ReadBuffer, c.WriteBuffer))
	}
	return nil
}

// feature names one Switch of a Config.
type feature struct {
	name  string
	env   string
	value *Switch
}

func (c *Config) features() [6]feature {
	return [...]feature{
		{"gso", "FELIX_UDP_GSO", &c.GSO},
		{"gro", "FELIX_UDP_GRO", &c.GRO},
		{"sendmmsg", "FELIX_UDP_SENDMMSG", &c.SendMMsg},
		{"recvmmsg", "FELIX_UDP_RECVMMSG", &c.RecvMMsg},
		{"ecn", "FELIX_UDP_ECN", &c.ECN},
		{"don't-fragment", "", &c.DontFragment},
	}
}

// ApplyEnv sets the switches that the environment names: FELIX_UDP_GSO,
// FELIX_UDP_GRO, FELIX_UDP_SENDMMSG, FELIX_UDP_RECVMMSG and FELIX_UDP_ECN, each
// auto, on or off. Anything else, an empty value included, is an error that
// names the variable, and leaves the Config as it was. lookup is os.LookupEnv
// outside of tests.
func (c *Config) ApplyEnv(lookup func(string) (string, bool)) error {
	next := *c
	for _, f := range next.features() {
		if f.env == "" {
			continue
		}
		text, ok := lookup(f.env)
		if !ok {
			continue
		}
		v, err := ParseSwitch(text)
		if err != nil {
			return fmt.Errorf("udp: environment variable %s: %w", f.env, err)
		}
		*f.value = v
	}
	*c = next
	return nil
}
