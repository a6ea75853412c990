package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
)

const ackedPrefixLen = 9

// PublishHeader is what a binary publish batch says before its items.
type PublishHeader struct {
	TenantID, Namespace, Stream string  // at most MaxIDLen bytes of UTF-8 each
	Acked                       bool    // send RequestID and Ack; a broker then owes an ack
	RequestID                   uint64  // used when Acked
	Ack                         AckMode // when Acked: AckPerMessage or AckPerBatch
	HasKey                      bool    // send Key; only to brokers that know FlagKeyed
	Key                         []byte  // at most MaxIDLen bytes
}

// Flags returns the frame flags of a batch with this header.
func (h PublishHeader) Flags() Flags {
	f := FlagPublishBatch
	if h.Acked {
		f |= FlagPublishAcked
	}
	if h.HasKey {
		f |= FlagKeyed
	}
	return f
}

// PayloadLen returns the payload bytes of a frame with this header and the given
// number of items, whose payloads have itemBytes bytes in all.
func (h PublishHeader) PayloadLen(items, itemBytes int) int {
	n := 3*2 + len(h.TenantID) + len(h.Namespace) + len(h.Stream) + countLen + items*ItemOverhead + itemBytes
	if h.Acked {
		n += ackedPrefixLen
	}
	if h.HasKey {
		n += 2 + len(h.Key)
	}
	return n
}

func (h PublishHeader) validate() error {
	if h.Acked && h.Ack != AckPerMessage && h.Ack != AckPerBatch {
		return fmt.Errorf("publish batch: %w: %v", ErrInvalidAckMode, h.Ack)
	}
	if h.HasKey && len(h.Key) > MaxIDLen {
		return fmt.Errorf("publish batch: key: %w", ErrIDTooLong)
	}
	for _, id := range [...]struct{ name, value string }{
		{"tenant_id", h.TenantID}, {"namespace", h.Namespace}, {"stream", h.Stream},
	} {
		if len(id.value) > MaxIDLen {
			return fmt.Errorf("publish batch: %s: %w", id.name, ErrIDTooLong)
		}
		if !utf8.ValidString(id.value) {
			return fmt.Errorf("publish batch: %s: %w", id.name, ErrInvalidUTF8)
		}
	}
	return nil
}

// appendPrefix appends all that comes between the frame header and the count.
func (h PublishHeader) appendPrefix(dst []byte) []byte {
	if h.Acked {
		dst = binary.BigEndian.AppendUint64(dst, h.RequestID)
		dst = append(dst, byte(h.Ack))
	}
	if h.HasKey {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(h.Key)))
		dst = append(dst, h.Key...)
	}
	dst = appendID(dst, h.TenantID)
	dst = appendID(dst, h.Namespace)
	return appendID(dst, h.Stream)
}

func appendID(dst []byte, s string) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	return append(dst, s...)
}

func appendItem(dst, payload []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(payload)))
	return append(dst, payload...)
}

// appendItems appends the count field and the items.
func appendItems(dst []byte, payloads [][]byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(payloads)))
	for _, p := range payloads {
		dst = appendItem(dst, p)
	}
	return dst
}

func totalBytes(payloads [][]byte) int {
	n := 0
	for _, p := range payloads {
		n += len(p)
	}
	return n
}

// AppendPublishBatch appends a whole publish batch frame to dst, growing it at
// most once. On an error dst is returned as it was.
func AppendPublishBatch(dst []byte, h PublishHeader, payloads [][]byte) ([]byte, error) {
	if err := h.validate(); err != nil {
		return dst, err
	}
	n := h.PayloadLen(len(payloads), totalBytes(payloads))
	if uint64(n) > math.MaxUint32 {
		return dst, fmt.Errorf("publish batch: %w", ErrFrameOverflow)
	}
	dst = grow(dst, HeaderLen+n)
	dst = AppendHeader(dst, h.Flags(), n)
	dst = h.appendPrefix(dst)
	return appendItems(dst, payloads), nil
}

// grow makes room for n more bytes, exactly when the room has to be allocated.
func grow(dst []byte, n int) []byte {
	if cap(dst)-len(dst) >= n {
		return dst
	}
	return append(make([]byte, 0, len(dst)+n), dst...)
}

// BatchBuilder encodes one publish batch frame item by item. Call Begin, Add as
// often as wanted, then Finish. The zero value is ready for Begin, and a builder
// may be used again after Finish. It must not be used by two goroutines at once.
type BatchBuilder struct {
	buf     []byte
	start   int // where the frame begins in buf
	countAt int // where the count field is in buf
	count   int
	bytes   int
	flags   Flags
}

// Begin starts a frame at the end of dst, which the builder owns until Finish.
// On an error the builder is empty and dst is untouched.
func (b *BatchBuilder) Begin(dst []byte, h PublishHeader) error {
	*b = BatchBuilder{}
	if err := h.validate(); err != nil {
		return err
	}
	b.start, b.flags = len(dst), h.Flags()
	buf := AppendHeader(dst, b.flags, 0)
	buf = h.appendPrefix(buf)
	b.countAt = len(buf)
	b.buf = append(buf, 0, 0, 0, 0)
	return nil
}

// Add appends one payload, which it copies. An empty payload is a valid item.
func (b *BatchBuilder) Add(payload []byte) {
	b.buf = appendItem(b.buf, payload)
	b.count++
	b.bytes += len(payload)
}

// Len returns the number of payloads added since Begin.
func (b *BatchBuilder) Len() int { return b.count }

// Bytes returns the sum of the payload lengths added since Begin.
func (b *BatchBuilder) Bytes() int { return b.bytes }

// PayloadLen returns the payload bytes of the frame so far. One more item of n
// bytes adds ItemOverhead+n.
func (b *BatchBuilder) PayloadLen() int {
	if b.buf == nil {
		return 0
	}
	return len(b.buf) - b.start - HeaderLen
}

// Finish completes the frame and returns the buffer given to Begin with the
// frame appended. The builder forgets it. Without Begin it returns nil.
func (b *BatchBuilder) Finish() ([]byte, error) {
	if b.buf == nil {
		return nil, nil
	}
	buf, n := b.buf, b.PayloadLen()
	if uint64(n) > math.MaxUint32 {
		buf = buf[:b.start]
		*b = BatchBuilder{}
		return buf, fmt.Errorf("publish batch: %w", ErrFrameOverflow)
	}
	binary.BigEndian.PutUint32(buf[b.countAt:], uint32(b.count))
	PutHeader(buf[b.start:], b.flags, n)
	*b = BatchBuilder{}
	return buf, nil
}
