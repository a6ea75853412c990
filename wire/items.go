package wire

import (
	"encoding/binary"
	"errors"
	"iter"
	"math"
)

// ItemOverhead is what an item of a batch adds to its payload, in bytes.
const ItemOverhead = 4

const countLen = 4

var (
	errShortCount = errors.New("count missing")
	errCount      = errors.New("count exceeds the bytes that follow")
	errItem       = errors.New("item runs past the end")
)

// Items is a validated view of a batch's payloads, in order: each is a u32
// length and that many bytes. It shares the memory of the frame it was parsed
// from; the zero value is an empty batch. Copies are cheap and may be read from
// any number of goroutines at once.
type Items struct {
	raw   []byte // u32 count and the items; nil for a cut
	body  []byte // the items
	count int
	bytes int
}

// Len returns the number of items.
func (it Items) Len() int { return it.count }

// Bytes returns the sum of the payload lengths, the length fields not counted.
func (it Items) Bytes() int { return it.bytes }

// Raw returns the count field and the items as they are on the wire. It is nil
// for a part made by Slice or SplitItems that does not begin with the count.
func (it Items) Raw() []byte { return it.raw }

// Body returns the items as they are on the wire, without the count field.
func (it Items) Body() []byte { return it.body }

// All yields the payloads. Each is capped to its own bytes.
func (it Items) All() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		b := it.body
		for range it.count {
			end := countLen + int(binary.BigEndian.Uint32(b))
			if !yield(b[countLen:end:end]) {
				return
			}
			b = b[end:]
		}
	}
}

// parseItems validates the count and items at the start of b. Bytes after the
// last item are not part of the result.
func parseItems(b []byte) (Items, error) {
	if len(b) < countLen {
		return Items{}, errShortCount
	}
	count := binary.BigEndian.Uint32(b)
	body := b[countLen:]
	if uint64(count) > uint64(len(body)/ItemOverhead) {
		return Items{}, errCount
	}
	rest := body
	for range count {
		if len(rest) < ItemOverhead {
			return Items{}, errItem
		}
		n := binary.BigEndian.Uint32(rest)
		rest = rest[ItemOverhead:]
		if uint64(n) > uint64(len(rest)) {
			return Items{}, errItem
		}
		rest = rest[n:]
	}
	used := len(body) - len(rest)
	return Items{
		raw:   b[: countLen+used : countLen+used],
		body:  body[:used:used],
		count: int(count),
		bytes: used - int(count)*ItemOverhead,
	}, nil
}

// cut returns the part of it that starts at byte offset from of the body.
func (it Items) cut(from, to, count int) Items {
	part := Items{body: it.body[from:to:to], count: count, bytes: to - from - count*ItemOverhead}
	if count == it.count {
		part.raw = it.raw
	}
	return part
}

// Slice returns items from..to-1. It panics unless 0 <= from <= to <= Len.
func (it Items) Slice(from, to int) Items {
	if from < 0 || to < from || to > it.count {
		panic("wire: Items.Slice out of range")
	}
	start := it.skip(0, from)
	return it.cut(start, it.skip(start, to-from), to-from)
}

// skip returns the body offset of the item n items after the one at off.
func (it Items) skip(off, n int) int {
	for range n {
		off += ItemOverhead + int(binary.BigEndian.Uint32(it.body[off:]))
	}
	return off
}

// SplitItems cuts it into runs of at most maxEvents items and maxBytes payload
// bytes, in order; a single item larger than maxBytes is a run of its own. A
// limit below 1 does not limit. An empty batch yields no run. A batch within
// the limits is yielded as it is.
func SplitItems(it Items, maxEvents, maxBytes int) iter.Seq[Items] {
	if maxEvents < 1 {
		maxEvents = math.MaxInt
	}
	if maxBytes < 1 {
		maxBytes = math.MaxInt
	}
	return func(yield func(Items) bool) {
		if it.count == 0 {
			return
		}
		if it.count <= maxEvents && it.bytes <= maxBytes {
			yield(it)
			return
		}
		start, off, count, bytes := 0, 0, 0, 0
		for range it.count {
			n := int(binary.BigEndian.Uint32(it.body[off:]))
			if count > 0 && (count == maxEvents || n > maxBytes-bytes) {
				if !yield(it.cut(start, off, count)) {
					return
				}
				start, count, bytes = off, 0, 0
			}
			off += ItemOverhead + n
			count++
			bytes += n
		}
		yield(it.cut(start, off, count))
	}
}
