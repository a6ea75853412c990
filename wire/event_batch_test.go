package wire

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// appendEvents encodes an event batch of either layout.
func appendEvents(dst []byte, subID, base *uint64, payloads [][]byte) ([]byte, error) {
	if subID == nil {
		return AppendSharedEventBatch(dst, base, payloads)
	}
	return AppendEventBatch(dst, *subID, base, payloads)
}

func TestEventBatchRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		subID, base := genOptional().Draw(t, "subscription"), genOptional().Draw(t, "base")
		payloads := genPayloads().Draw(t, "payloads")
		raw, err := appendEvents([]byte("ab"), subID, base, payloads)
		if err != nil {
			t.Fatal(err)
		}
		raw = raw[2:]
		h, err := ParseHeader(raw, DefaultMaxFrameBytes)
		if err != nil || int(h.Length) != len(raw)-HeaderLen {
			t.Fatalf("header %+v, %v", h, err)
		}
		tail := rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "tail")
		b, err := ParseEventBatch(h.Flags, append(bytes.Clone(raw[HeaderLen:]), tail...))
		if err != nil {
			t.Fatal(err)
		}
		if b.Shared != (subID == nil) || subID != nil && b.SubscriptionID != *subID {
			t.Fatalf("shared %v, subscription %d", b.Shared, b.SubscriptionID)
		}
		if b.HasBase != (base != nil) || base != nil && b.BaseOffset != *base {
			t.Fatalf("base %v %d", b.HasBase, b.BaseOffset)
		}
		checkItems(t, b.Items, payloads)
		checkReencoded(t, raw, b, subID, base)
	})
}

// checkReencoded builds the frame from the parsed items in the other ways there are.
func checkReencoded(t *rapid.T, want []byte, b EventBatch, subID, base *uint64) {
	var prefix []byte
	if subID == nil {
		prefix = AppendSharedEventPrefix(nil, base, b.Items)
		if got := AppendSharedEvents(nil, base, b.Items); !bytes.Equal(got, want) {
			t.Fatalf("AppendSharedEvents: got %x\nwant %x", got, want)
		}
	} else {
		prefix = AppendEventPrefix(nil, *subID, base, b.Items)
	}
	if len(prefix) > MaxEventPrefixLen {
		t.Fatalf("prefix of %d bytes", len(prefix))
	}
	if got := append(prefix, b.Items.Body()...); !bytes.Equal(got, want) {
		t.Fatalf("prefix and body: got %x\nwant %x", got, want)
	}
}

func TestEventBatchTruncated(t *testing.T) {
	payloads := [][]byte{[]byte("hello"), {}}
	for _, subID := range []*uint64{nil, ptr(uint64(7))} {
		for _, base := range []*uint64{nil, ptr(uint64(42))} {
			raw, err := appendEvents(nil, subID, base, payloads)
			if err != nil {
				t.Fatal(err)
			}
			h, err := ParseHeader(raw, DefaultMaxFrameBytes)
			if err != nil {
				t.Fatal(err)
			}
			for n := range raw[HeaderLen:] {
				if _, err := ParseEventBatch(h.Flags, raw[HeaderLen:HeaderLen+n]); !errors.Is(err, ErrMalformedEvents) {
					t.Errorf("flags %#x cut at %d: error %v", h.Flags, n, err)
				}
			}
		}
	}
}

func TestParseEventBatchFlags(t *testing.T) {
	payload := make([]byte, 100) // an empty batch in every layout
	legal := map[Flags]bool{0x02: true, 0x22: true, 0x04: true, 0x24: true}
	for f := range Flags(0xFFFF) {
		_, err := ParseEventBatch(f, payload)
		if legal[f] != (err == nil) || err != nil && !errors.Is(err, ErrUnsupportedFlags) {
			t.Errorf("flags %#x: error %v", f, err)
		}
	}
}
