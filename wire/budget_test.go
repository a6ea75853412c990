package wire

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// countingBudget grants up to limit bytes.
type countingBudget struct{ taken, limit int }

var errNoBudget = errors.New("no budget")

func (b *countingBudget) Take(n int) error {
	if n <= 0 || b.taken+n > b.limit {
		return errNoBudget
	}
	b.taken += n
	return nil
}

// A reader asks for what it holds of a large frame before it takes it, and never
// for small ones.
func TestFrameReaderBudget(t *testing.T) {
	for _, tc := range []struct{ payload, sent, least, most int }{
		{1000, 1000, 0, 0},
		{15000, 15000, 0, 0},
		{1 << 20, 1 << 20, 1<<20 + HeaderLen, 1<<20 + HeaderLen},
		{16 << 20, 1 << 20, 1 << 20, 2<<20 + 64<<10},
		{16 << 20, 1 << 10, 0, 0},
	} {
		b := &countingBudget{limit: 32 << 20}
		stream := append(AppendHeader(nil, 0, tc.payload), make([]byte, tc.sent)...)
		r := NewFrameReader(iotest.HalfReader(bytes.NewReader(stream)), DefaultMaxFrameBytes)
		r.SetBudget(b)
		_, err := r.Next()
		if want := tc.sent < tc.payload; (err != nil) != want || want && err != io.ErrUnexpectedEOF {
			t.Errorf("%+v: error %v", tc, err)
		}
		if b.taken < tc.least || b.taken > tc.most {
			t.Errorf("%+v: %d bytes taken", tc, b.taken)
		}
	}
	r := NewFrameReader(bytes.NewReader(append(AppendHeader(nil, 0, 1<<20), make([]byte, 1<<20)...)), DefaultMaxFrameBytes)
	r.SetBudget(&countingBudget{limit: 100 << 10})
	if _, err := r.Next(); err != errNoBudget {
		t.Errorf("over the budget: %v", err)
	}
}

// A cache value written around its text is the frame that the encoder makes.
func TestAppendCacheValueAround(t *testing.T) {
	id := uint64(7)
	for _, m := range []*CacheValue{
		{TenantID: "t", Namespace: "n", Cache: "value", Key: `","value":"`, Value: []byte{}},
		{TenantID: "t", Namespace: "n", Cache: "c", Key: "k", Value: []byte("some bytes"), RequestID: &id},
		{TenantID: "t", Namespace: "n", Cache: "c", Key: "\u00e9\n", Value: make([]byte, 100_000), RequestID: &id},
	} {
		frame, split, err := AppendCacheValueAround([]byte("before"), m)
		if err != nil {
			t.Fatal(err)
		}
		got := append(bytes.Clone(frame[:split]), base64.StdEncoding.EncodeToString(m.Value)...)
		got = append(got, frame[split:]...)
		want, err := AppendMessageFrame([]byte("before"), m)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("key %q: %.200q, want %.200q (%v)", m.Key, got, want, err)
		}
	}
	dst, _, err := AppendCacheValueAround([]byte("d"), &CacheValue{Key: "\xff", Value: []byte{1}})
	if string(dst) != "d" || !errors.Is(err, ErrInvalidUTF8) {
		t.Errorf("%q, error %v", dst, err)
	}
}

// DecodeCost covers what decoding allocates.
func TestDecodeCost(t *testing.T) {
	for _, items := range []string{strings.Repeat(`"",`, 100_000) + `""`, `"` + strings.Repeat("AAAA", 100_000) + `"`, strings.Repeat(`"AAAA",`, 50_000) + `""`} {
		payload := []byte(`{"type":"publish_batch","tenant_id":"t","namespace":"n","stream":"s","payloads":[` + items + `]}`)
		got := allocated(func() {
			if _, err := ParseMessage(payload); err != nil {
				t.Error(err)
			}
		})
		if cost := uint64(DecodeCost(payload)); got > cost+cost/4+16<<10 || got < cost/4 {
			t.Errorf("%.100q: %d bytes allocated, said to be %d", items, got, cost)
		}
	}
}

func TestUnknownFlags(t *testing.T) {
	for f, want := range map[Flags]Flags{
		0: 0, 0x01: 0, 0x09: 0, 0x41: 0, 0x49: 0, 0x08: 0, 0x20: 0, 0x02: 0,
		0x40: 0x40, 0x48: 0x40, 0x42: 0x40, 0x80: 0x80, 0xc1: 0x80, 0xc0: 0xc0,
	} {
		if got := f.Unknown(); got != want {
			t.Errorf("flags %#x: unknown %#x, want %#x", f, got, want)
		}
	}
}
