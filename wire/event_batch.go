package wire

import (
	"encoding/binary"
	"fmt"
	"math"
)

// EventBatch is a parsed binary event batch. Items is a view of the frame.
type EventBatch struct {
	Shared         bool   // the layout without a subscription id
	SubscriptionID uint64 // 0 when Shared
	HasBase        bool
	BaseOffset     uint64 // offset of the first item; item i has BaseOffset+i
	Items          Items
}

// ParseEventBatch parses the payload of a frame with FlagEventBatch or
// FlagEventBatchShared, optionally FlagEventOffsets. It allocates nothing.
// Errors are ErrUnsupportedFlags and ErrMalformedEvents.
func ParseEventBatch(f Flags, payload []byte) (EventBatch, error) {
	var b EventBatch
	switch f {
	case sharedLayout, FlagEventBatchShared:
		b.Shared = true
	case ownedLayout, FlagEventBatch:
	default:
		return b, ErrUnsupportedFlags
	}
	rest := payload
	if !b.Shared {
		if len(rest) < 8 {
			return b, fmt.Errorf("%w: subscription id: %w", ErrMalformedEvents, errShort)
		}
		b.SubscriptionID, rest = binary.BigEndian.Uint64(rest), rest[8:]
	}
	if f.Has(FlagEventOffsets) {
		if len(rest) < 8 {
			return b, fmt.Errorf("%w: base offset: %w", ErrMalformedEvents, errShort)
		}
		b.HasBase, b.BaseOffset, rest = true, binary.BigEndian.Uint64(rest), rest[8:]
	}
	items, err := parseItems(rest)
	if err != nil {
		return b, fmt.Errorf("%w: %w", ErrMalformedEvents, err)
	}
	b.Items = items
	return b, nil
}

// eventHead is all of an event frame that comes before the items.
type eventHead struct {
	subID *uint64 // nil: shared layout
	base  *uint64 // nil: no offset
	count int
}

func (h eventHead) flags() Flags {
	f := FlagEventBatchShared
	if h.subID != nil {
		f = FlagEventBatch
	}
	if h.base != nil {
		f |= FlagEventOffsets
	}
	return f
}

func (h eventHead) payloadLen(body int) int {
	n := countLen + body
	if h.subID != nil {
		n += 8
	}
	if h.base != nil {
		n += 8
	}
	return n
}

func (h eventHead) append(dst []byte, body int) []byte {
	dst = AppendHeader(dst, h.flags(), h.payloadLen(body))
	if h.subID != nil {
		dst = binary.BigEndian.AppendUint64(dst, *h.subID)
	}
	if h.base != nil {
		dst = binary.BigEndian.AppendUint64(dst, *h.base)
	}
	return binary.BigEndian.AppendUint32(dst, uint32(h.count))
}

func (h eventHead) appendPayloads(dst []byte, payloads [][]byte) ([]byte, error) {
	h.count = len(payloads)
	body := totalBytes(payloads) + len(payloads)*ItemOverhead
	n := h.payloadLen(body)
	if uint64(n) > math.MaxUint32 {
		return dst, fmt.Errorf("event batch: %w", ErrFrameOverflow)
	}
	dst = h.append(grow(dst, HeaderLen+n), body)
	for _, p := range payloads {
		dst = appendItem(dst, p)
	}
	return dst, nil
}

// AppendSharedEventBatch appends a whole shared event batch frame to dst. base is
// the offset of the first payload, nil for a frame without offsets.
func AppendSharedEventBatch(dst []byte, base *uint64, payloads [][]byte) ([]byte, error) {
	return eventHead{base: base}.appendPayloads(dst, payloads)
}

// AppendEventBatch appends a whole event batch frame for one subscription to
// dst. base is the offset of the first payload, nil for a frame without offsets.
func AppendEventBatch(dst []byte, subID uint64, base *uint64, payloads [][]byte) ([]byte, error) {
	return eventHead{subID: &subID, base: base}.appendPayloads(dst, payloads)
}

// MaxEventPrefixLen is the most AppendSharedEventPrefix and AppendEventPrefix append.
const MaxEventPrefixLen = HeaderLen + 8 + 8 + countLen

// AppendSharedEventPrefix appends the part of a shared event batch frame that
// comes before it.Body(). Writing that body after it completes the frame without
// copying the payloads.
func AppendSharedEventPrefix(dst []byte, base *uint64, it Items) []byte {
	return eventHead{base: base, count: it.Len()}.append(dst, len(it.body))
}

// AppendEventPrefix is AppendSharedEventPrefix for the layout of one subscription.
func AppendEventPrefix(dst []byte, subID uint64, base *uint64, it Items) []byte {
	return eventHead{subID: &subID, base: base, count: it.Len()}.append(dst, len(it.body))
}

// AppendSharedEvents appends a whole shared event batch frame with the given
// items, such as a run of SplitItems, to dst.
func AppendSharedEvents(dst []byte, base *uint64, it Items) []byte {
	dst = grow(dst, MaxEventPrefixLen+len(it.body))
	return append(AppendSharedEventPrefix(dst, base, it), it.body...)
}
