package udp

import "fmt"

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

// DefaultBuffer is the size in bytes that Listen asks for in each direction
// when Config names none.
const DefaultBuffer = 8 << 20

// Config holds the settings of a socket. The zero value is the default.
type Config struct {
	// ReadBuffer and WriteBuffer are the kernel socket buffers to ask for, in
	// bytes; 0 means DefaultBuffer.
	ReadBuffer, WriteBuffer int
	// GSO is kernel segmentation of sends (UDP_SEGMENT, Linux).
	GSO Switch
	// GRO is coalesced receiving (UDP_GRO, Linux).
	GRO Switch
	// SendMMsg is several messages a send call (sendmmsg, sendmsg_x).
	SendMMsg Switch
	// RecvMMsg is several messages a receive call (recvmmsg, recvmsg_x).
	RecvMMsg Switch
	// ECN is marking and reading of the ECN codepoint.
	ECN Switch
}
