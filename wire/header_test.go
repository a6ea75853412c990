package wire

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseHeader(t *testing.T) {
	header := func(f Flags, n int) []byte { return AppendHeader(nil, f, n) }
	change := func(i int, v byte) []byte {
		b := header(0, 5)
		b[i] = v
		return b
	}
	tests := []struct {
		name string
		b    []byte
		max  int
		want Header
		err  error
	}{
		{"empty", nil, 100, Header{}, ErrShortHeader},
		{"one byte short", header(0, 5)[:11], 100, Header{}, ErrShortHeader},
		{"json", header(0, 5), 100, Header{0, 5}, nil},
		{"bytes after it", append(header(0, 5), 'x'), 100, Header{0, 5}, nil},
		{"no payload", header(0, 0), 0, Header{0, 0}, nil},
		{"unknown flags pass", header(0xFFFF, 1), 100, Header{0xFFFF, 1}, nil},
		{"at the limit", header(FlagPublishBatch, 100), 100, Header{FlagPublishBatch, 100}, nil},
		{"largest", header(0, math.MaxUint32), math.MaxInt, Header{0, math.MaxUint32}, nil},
		{"magic first byte", change(0, 0), 100, Header{}, ErrBadMagic},
		{"magic last byte", change(3, '2'), 100, Header{}, ErrBadMagic},
		{"version 2", change(5, 2), 100, Header{}, ErrBadVersion},
		{"version 257", change(4, 1), 100, Header{}, ErrBadVersion},
	}
	for _, tt := range tests {
		got, err := ParseHeader(tt.b, tt.max)
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: got %+v, %v; want %+v, %v", tt.name, got, err, tt.want, tt.err)
		}
	}
}

func TestParseHeaderTooLarge(t *testing.T) {
	for _, n := range []int{101, 1 << 24, math.MaxUint32} {
		_, err := ParseHeader(AppendHeader(nil, 0, n), 100)
		var tooLarge *FrameTooLargeError
		if !errors.As(err, &tooLarge) || *tooLarge != (FrameTooLargeError{Length: uint32(n), Limit: 100}) {
			t.Errorf("length %d: error %v", n, err)
		} else if !strings.Contains(err.Error(), "limit of 100") {
			t.Errorf("the text does not name the limit: %v", err)
		}
	}
}

func TestHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := Header{Flags: Flags(rapid.Uint16().Draw(t, "flags")), Length: rapid.Uint32().Draw(t, "length")}
		b := AppendHeader([]byte("xy"), h.Flags, int(h.Length))
		if !bytes.HasPrefix(b, []byte("xyFLX1")) || len(b) != 2+HeaderLen {
			t.Fatalf("encoded %x", b)
		}
		if got, err := ParseHeader(b[2:], math.MaxInt); got != h || err != nil {
			t.Fatalf("got %+v, %v; want %+v", got, err, h)
		}
	})
}

func TestFlags(t *testing.T) {
	if KnownFlags != 63 || LegacyFlags != 7 || DecodableFlags != 127 {
		t.Errorf("flag sets %d %d %d", KnownFlags, LegacyFlags, DecodableFlags)
	}
	f := FlagPublishBatch | FlagPublishAcked
	if !f.Has(FlagPublishBatch) || !f.Has(f) || f.Has(FlagPublishBatch|FlagKeyed) {
		t.Error("Has is wrong")
	}
	for f, want := range map[Flags]Flags{0: 0, 0x7F: 0, 0x80: 0x80, 0x4001: 0x4000, 0xFFFF: 0xFF80} {
		if got := f.Unknown(); got != want {
			t.Errorf("%#x.Unknown() = %#x, want %#x", f, got, want)
		}
	}
}
