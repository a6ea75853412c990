package wire

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxAckErrorText is the most bytes of error text a binary publish ack carries.
const MaxAckErrorText = 512

const (
	ackFixedLen = 11
	ackOK       = 0
	ackError    = 1
)

// PublishAck is the answer to an acked binary publish batch.
type PublishAck struct {
	RequestID uint64
	Failed    bool
	Message   string // the broker's error text, "" unless Failed
}

// AppendPublishAck appends a whole publish ack frame to dst: success when errText
// is empty, else a failure with that text, cut at MaxAckErrorText bytes on a
// character boundary. Bytes that are not UTF-8 are sent as U+FFFD.
func AppendPublishAck(dst []byte, id uint64, errText string) []byte {
	status := byte(ackOK)
	if errText != "" {
		status, errText = ackError, clipText(errText, MaxAckErrorText)
	}
	dst = AppendHeader(dst, FlagPublishAck, ackFixedLen+len(errText))
	dst = append(dst, status)
	dst = binary.BigEndian.AppendUint64(dst, id)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(errText)))
	return append(dst, errText...)
}

// clipText returns at most limit bytes of s, valid UTF-8, no character cut.
func clipText(s string, limit int) string {
	s = strings.ToValidUTF8(s[:min(len(s), limit+utf8.UTFMax)], "\uFFFD")
	if len(s) <= limit {
		return s
	}
	for !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// ParsePublishAck parses the payload of a frame with flags FlagPublishAck. Bytes
// after the message are ignored, as is the message of a success. The error is
// ErrMalformedAck.
func ParsePublishAck(payload []byte) (PublishAck, error) {
	if len(payload) < ackFixedLen {
		return PublishAck{}, fmt.Errorf("%w: %d bytes of at least %d", ErrMalformedAck, len(payload), ackFixedLen)
	}
	status := payload[0]
	if status != ackOK && status != ackError {
		return PublishAck{}, fmt.Errorf("%w: status %d", ErrMalformedAck, status)
	}
	text, _, ok := cutString(payload[9:])
	if !ok {
		return PublishAck{}, fmt.Errorf("%w: message: %w", ErrMalformedAck, errShort)
	}
	if !utf8.Valid(text) {
		return PublishAck{}, fmt.Errorf("%w: message: %w", ErrMalformedAck, errUTF8)
	}
	ack := PublishAck{RequestID: binary.BigEndian.Uint64(payload[1:]), Failed: status == ackError}
	if ack.Failed {
		ack.Message = string(text)
	}
	return ack, nil
}
