package wire

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
)

// allocated returns the heap bytes f allocates, the least of a few runs so that
// what the runtime does in the meantime does not count.
func allocated(f func()) uint64 {
	best := ^uint64(0)
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		best = min(best, after.TotalAlloc-before.TotalAlloc)
	}
	return best
}

// A refused binary body may cost its error and nothing else, whatever lengths and
// counts it claims and however large it is.
func TestBinaryBombsCostNoMemory(t *testing.T) {
	const limit = 1 << 10
	big := make([]byte, 4<<20)
	ids := "0002 7431 0001 6e 0001 73"
	bodies := map[string][]byte{
		"count of 4 Gi":             unhex(t, ids+"ffffffff"),
		"count of 4 Gi, large body": append(unhex(t, ids+"ffffffff"), big...),
		"count just over":           append(unhex(t, ids+"00100001"), big...),
		"lying item":                append(unhex(t, ids+"00000001 ffffffff"), big...),
		"last item lies":            append(unhex(t, ids+"00100000"), append(bytes.Clone(big[:len(big)-4]), 0, 0, 0, 1)...),
		"truncated":                 append(unhex(t, ids+"00000001 00400001"), big...),
	}
	for name, body := range bodies {
		if got := allocated(func() {
			if _, err := ParsePublishBatch(FlagPublishBatch, body); !errors.Is(err, ErrMalformedBatch) {
				t.Errorf("%s: error %v", name, err)
			}
		}); got > limit {
			t.Errorf("publish batch, %s: %d bytes", name, got)
		}
		if got := allocated(func() {
			if _, err := ParseEventBatch(FlagEventBatchShared, body[11:]); !errors.Is(err, ErrMalformedEvents) {
				t.Errorf("%s: error %v", name, err)
			}
		}); got > limit {
			t.Errorf("event batch, %s: %d bytes", name, got)
		}
	}
	ack := append(unhex(t, "01 0000000000000007 ffff"), make([]byte, 65534)...)
	if got := allocated(func() {
		if _, err := ParsePublishAck(ack); !errors.Is(err, ErrMalformedAck) {
			t.Error(err)
		}
	}); got > limit {
		t.Errorf("ack: %d bytes", got)
	}
}

// A count that cannot be true is refused before the items are walked.
func TestCountBombsAreRefusedAtOnce(t *testing.T) {
	for _, b := range [][]byte{unhex(t, "00000001"), unhex(t, "ffffffff 00000000"), unhex(t, "00000002 00000000 000000")} {
		if _, err := parseItems(b); !errors.Is(err, errCount) {
			t.Errorf("%x: error %v, want %v", b, err, errCount)
		}
	}
}

// A valid batch of the most items a frame can hold costs nothing either.
func TestValidBatchesCostNoMemory(t *testing.T) {
	body := append(unhex(t, "0002 7431 0001 6e 0001 73 00100000"), make([]byte, 4<<20)...)
	if got := allocated(func() {
		b, err := ParsePublishBatch(FlagPublishBatch, body)
		if err != nil || b.Items.Len() != 1<<20 {
			t.Errorf("%d items, %v", b.Items.Len(), err)
		}
		runs := 0
		for range SplitItems(b.Items, 64, 1<<16) {
			runs++
		}
		if runs != 1<<20/64 {
			t.Errorf("%d runs", runs)
		}
	}); got > 1<<10 {
		t.Errorf("%d bytes", got)
	}
}

// A header's length costs nothing until the bytes come.
func TestLyingLengthsCostNoMemory(t *testing.T) {
	for _, sent := range []int{0, 1, 1000, 10000, 100000, 1000000} {
		stream := append(AppendHeader(nil, 0, 16<<20), make([]byte, sent)...)
		got := allocated(func() {
			_, err := NewFrameReader(bytes.NewReader(stream), DefaultMaxFrameBytes).Next()
			if err != io.ErrUnexpectedEOF {
				t.Errorf("error %v", err)
			}
		})
		// All doublings together are below four times what was sent.
		if limit := uint64(2*firstSlab + 4*sent + 1<<10); got > limit {
			t.Errorf("%d of 16 MiB sent: %d bytes allocated, limit %d", sent, got, limit)
		}
	}
	stream := AppendHeader(nil, 0, 16<<20)
	got := allocated(func() {
		_, err := NewFrameReader(bytes.NewReader(stream), 64<<10).Next()
		if _, ok := errors.AsType[*FrameTooLargeError](err); !ok {
			t.Errorf("error %v", err)
		}
	})
	if got > firstSlab+1<<10 {
		t.Errorf("length over the limit: %d bytes allocated", got)
	}
}

// A stream that has carried only an auth frame must stay cheap.
func TestIdleStreamIsSmall(t *testing.T) {
	raw, err := AppendMessageFrame(nil, &Auth{TenantID: "t1", Token: strings.Repeat("x", 600)})
	if err != nil {
		t.Fatal(err)
	}
	got := allocated(func() {
		if _, err := NewFrameReader(bytes.NewReader(raw), DefaultMaxFrameBytes).Next(); err != nil {
			t.Error(err)
		}
	})
	if got > firstSlab+512 {
		t.Errorf("%d bytes", got)
	}
}

// JSON costs memory in proportion to the text, and no more than documented.
func TestJSONBombsAreBounded(t *testing.T) {
	const n = 1 << 20
	pre := `{"type":"publish_batch","tenant_id":"t","namespace":"n","stream":"s","payloads":[`
	texts := map[string]string{
		"empty payloads":    pre + strings.Repeat(`"",`, n) + `""]}`,
		"one escape bomb":   pre + `"` + strings.Repeat(`\"`, n) + `"]}`,
		"commas in text":    pre + `"` + strings.Repeat(`,`, n) + `"]}`,
		"unknown members":   `{"type":"ok"` + strings.Repeat(`,"x":0`, n) + `}`,
		"nested":            `{"type":"ok","x":` + strings.Repeat(`[[],`, 9000) + "0" + strings.Repeat(`]`, 9000) + `}`,
		"long foreign type": `{"type":"` + strings.Repeat("x", n) + `"}`,
		"never closed":      pre + strings.Repeat(`"",`, n),
	}
	for name, text := range texts {
		payload := []byte(text)
		got := allocated(func() { _, _ = ParseMessage(payload) })
		if limit := 9*uint64(len(payload)) + 16<<10; got > limit {
			t.Errorf("%s: %d bytes allocated for %d, limit %d", name, got, len(payload), limit)
		}
		t.Logf("%s: %.1f bytes per byte", name, float64(got)/float64(len(payload)))
	}
}
