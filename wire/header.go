package wire

import (
	"encoding/binary"
	"math"
)

const (
	// Magic starts every frame: ASCII "FLX1".
	Magic uint32 = 0x464C5831
	// Version is the only protocol version there is.
	Version uint16 = 1
	// HeaderLen is the size of a frame header in bytes.
	HeaderLen = 12
	// DefaultMaxFrameBytes is the payload limit both sides use unless configured
	// otherwise.
	DefaultMaxFrameBytes = 16 << 20
	// MaxIDLen is the longest id or key of a binary layout, in bytes.
	MaxIDLen = math.MaxUint16
)

// Header is a frame header after its magic and version were checked.
type Header struct {
	Flags  Flags
	Length uint32 // payload bytes, the header not counted
}

// ParseHeader reads the frame header at the start of b and refuses a payload
// longer than maxFrame bytes. It returns ErrShortHeader, ErrBadMagic,
// ErrBadVersion or a *FrameTooLargeError.
func ParseHeader(b []byte, maxFrame int) (Header, error) {
	if len(b) < HeaderLen {
		return Header{}, ErrShortHeader
	}
	if binary.BigEndian.Uint32(b) != Magic {
		return Header{}, ErrBadMagic
	}
	if binary.BigEndian.Uint16(b[4:]) != Version {
		return Header{}, ErrBadVersion
	}
	h := Header{Flags: Flags(binary.BigEndian.Uint16(b[6:])), Length: binary.BigEndian.Uint32(b[8:])}
	if int64(h.Length) > int64(maxFrame) {
		return Header{}, &FrameTooLargeError{Length: h.Length, Limit: maxFrame}
	}
	return h, nil
}

// PutHeader writes the header of a frame with n payload bytes into b[:HeaderLen].
// n must be in 0..2^32-1 and b long enough.
func PutHeader(b []byte, f Flags, n int) {
	_ = b[HeaderLen-1]
	binary.BigEndian.PutUint32(b, Magic)
	binary.BigEndian.PutUint16(b[4:], Version)
	binary.BigEndian.PutUint16(b[6:], uint16(f))
	binary.BigEndian.PutUint32(b[8:], uint32(n))
}

// AppendHeader appends the header of a frame with n payload bytes to dst.
func AppendHeader(dst []byte, f Flags, n int) []byte {
	var h [HeaderLen]byte
	PutHeader(h[:], f, n)
	return append(dst, h[:]...)
}

// Frame is one frame as it came off a QUIC stream.
type Frame struct {
	Flags Flags
	// Raw is the header and the payload. The reader never writes to it again.
	Raw []byte
}

// Payload returns the frame's bytes after the header.
func (f Frame) Payload() []byte { return f.Raw[HeaderLen:] }
