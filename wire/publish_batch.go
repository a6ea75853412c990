package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

var (
	errShort = errors.New("length runs past the end")
	errUTF8  = errors.New("not UTF-8")
)

// PublishBatch is a parsed binary publish batch. The byte slices and Items are
// views of the frame: they are valid as long as nobody writes to it, so not
// after SharedEventInPlace (of which Items is the exception).
type PublishBatch struct {
	Acked     bool    // the frame carries a request id and wants an ack
	RequestID uint64  // the client's, any value; 0 when not Acked
	Ack       AckMode // AckPerMessage or AckPerBatch; AckNone when not Acked
	HasKey    bool    // an empty key is still a key
	Key       []byte  // nil when not HasKey
	TenantID  []byte  // UTF-8
	Namespace []byte  // UTF-8
	Stream    []byte  // UTF-8
	Items     Items

	itemsOff int // payload offset of Items.Raw
}

// ParsePublishBatch parses the payload of a frame with FlagPublishBatch,
// optionally FlagPublishAcked and FlagKeyed. It allocates nothing.
//
// Errors are ErrUnsupportedFlags, ErrMalformedPrefix (request id or ack mode) and
// ErrMalformedBatch (all that follows). With the last one Acked, RequestID and
// Ack are valid, so that the failure can be reported to its request.
func ParsePublishBatch(f Flags, payload []byte) (PublishBatch, error) {
	b := PublishBatch{Ack: AckNone}
	if !f.Has(FlagPublishBatch) || f&^publishLayout != 0 {
		return b, ErrUnsupportedFlags
	}
	rest := payload
	if f.Has(FlagPublishAcked) {
		if len(rest) < ackedPrefixLen {
			return b, fmt.Errorf("%w: %d bytes of 9", ErrMalformedPrefix, len(rest))
		}
		mode := AckMode(rest[8])
		if mode != AckPerMessage && mode != AckPerBatch {
			return b, fmt.Errorf("%w: ack mode %d", ErrMalformedPrefix, rest[8])
		}
		b.Acked, b.RequestID, b.Ack = true, binary.BigEndian.Uint64(rest), mode
		rest = rest[ackedPrefixLen:]
	}
	if f.Has(FlagKeyed) {
		key, after, ok := cutString(rest)
		if !ok {
			return b, fmt.Errorf("%w: key: %w", ErrMalformedBatch, errShort)
		}
		b.HasKey, b.Key, rest = true, key, after
	}
	err := b.parseBody(payload, rest)
	return b, err
}

// parseBody reads ids and items from rest, the tail of payload.
func (b *PublishBatch) parseBody(payload, rest []byte) (err error) {
	if b.TenantID, rest, err = cutID(rest); err != nil {
		return fmt.Errorf("%w: tenant_id: %w", ErrMalformedBatch, err)
	}
	if b.Namespace, rest, err = cutID(rest); err != nil {
		return fmt.Errorf("%w: namespace: %w", ErrMalformedBatch, err)
	}
	if b.Stream, rest, err = cutID(rest); err != nil {
		return fmt.Errorf("%w: stream: %w", ErrMalformedBatch, err)
	}
	if b.Items, err = parseItems(rest); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformedBatch, err)
	}
	b.itemsOff = len(payload) - len(rest)
	return nil
}

// cutID reads a length-prefixed id from the start of b.
func cutID(b []byte) (id, rest []byte, err error) {
	id, rest, ok := cutString(b)
	if !ok {
		return nil, b, errShort
	}
	if !utf8.Valid(id) {
		return nil, b, errUTF8
	}
	return id, rest, nil
}

// cutString reads a u16 length and that many bytes from the start of b.
func cutString(b []byte) (s, rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, b, false
	}
	end := 2 + int(binary.BigEndian.Uint16(b))
	if end > len(b) {
		return nil, b, false
	}
	return b[2:end:end], b[end:], true
}

// SharedEventInPlace turns the frame fr, from whose payload b was parsed, into a
// shared event batch (FlagEventBatchShared, no offset) and returns it, a part of
// fr.Raw. The payloads stay where they are; only the 12 bytes before
// b.Items.Raw() are overwritten, which a publish batch always has room for.
//
// The caller must own fr. Afterwards b's ids and key are invalid, b.Items is
// still valid, and the result must be treated as immutable once it is shared.
// It panics when b was not parsed from fr.
func SharedEventInPlace(fr Frame, b PublishBatch) []byte {
	at := HeaderLen + b.itemsOff
	raw := b.Items.raw
	if b.itemsOff == 0 || len(raw) > len(fr.Raw)-at || &fr.Raw[at] != &raw[0] {
		panic("wire: SharedEventInPlace: the batch is not from this frame")
	}
	ev := fr.Raw[at-HeaderLen : at+len(raw) : at+len(raw)]
	PutHeader(ev, FlagEventBatchShared, len(raw))
	return ev
}
