package wire

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestPublishAckRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, text := genUint64().Draw(t, "id"), genText().Draw(t, "text")
		raw := AppendPublishAck(nil, id, text)
		h, err := ParseHeader(raw, DefaultMaxFrameBytes)
		if err != nil || h.Flags != FlagPublishAck || int(h.Length) != len(raw)-HeaderLen {
			t.Fatalf("header %+v, %v", h, err)
		}
		tail := rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "tail")
		ack, err := ParsePublishAck(append(raw[HeaderLen:], tail...))
		if want := (PublishAck{RequestID: id, Failed: text != "", Message: text}); ack != want || err != nil {
			t.Fatalf("got %+v, %v; want %+v", ack, err, want)
		}
	})
}

func TestPublishAckTextIsCut(t *testing.T) {
	tests := []struct {
		name, text, want string
	}{
		{"at the limit", strings.Repeat("x", 512), strings.Repeat("x", 512)},
		{"one over", strings.Repeat("x", 513), strings.Repeat("x", 512)},
		{"far over", strings.Repeat("x", 100000), strings.Repeat("x", 512)},
		{"two-byte character across", strings.Repeat("x", 511) + "ü", strings.Repeat("x", 511)},
		{"two-byte character fits", strings.Repeat("x", 510) + "üx", strings.Repeat("x", 510) + "ü"},
		{"four-byte character across", strings.Repeat("x", 509) + "😀", strings.Repeat("x", 509)},
		{"all four bytes", strings.Repeat("😀", 200), strings.Repeat("😀", 128)},
		{"not UTF-8", "a\xffb", "a\uFFFDb"},
		{"replacement across", strings.Repeat("x", 511) + "\xff", strings.Repeat("x", 511)},
		{"nothing but bad bytes", strings.Repeat("\xff", 600), "\uFFFD"},
	}
	for _, tt := range tests {
		ack, err := ParsePublishAck(AppendPublishAck(nil, 1, tt.text)[HeaderLen:])
		if err != nil || !ack.Failed || ack.Message != tt.want {
			t.Errorf("%s: got %q, %v; want %q", tt.name, ack.Message, err, tt.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOfN(rapid.SampledFrom([]byte("x\xc3\xbc\xf0\x9f\x98\x80\xff")), 505, 520).Draw(t, "text"))
		got := clipText(text, MaxAckErrorText)
		if len(got) > MaxAckErrorText || !utf8.ValidString(got) || len(got) < 100 {
			t.Fatalf("%q became %q", text, got)
		}
		if utf8.ValidString(text) && !strings.HasPrefix(text, got) {
			t.Fatalf("%q is no prefix of %q", got, text)
		}
	})
}

func TestParsePublishAck(t *testing.T) {
	tests := []struct {
		name, hex string
		want      PublishAck
		ok        bool
	}{
		{"ok", "00 0000000000000007 0000", PublishAck{RequestID: 7}, true},
		{"ok with a text", "00 0000000000000007 0001 78", PublishAck{RequestID: 7}, true},
		{"error without a text", "01 0000000000000007 0000", PublishAck{RequestID: 7, Failed: true}, true},
		{"bytes after it", "01 0000000000000007 0001 78 0001 02", PublishAck{RequestID: 7, Failed: true, Message: "x"}, true},
		{"empty", "", PublishAck{}, false},
		{"ten bytes", "00 0000000000000007 00", PublishAck{}, false},
		{"status 2", "02 0000000000000007 0000", PublishAck{}, false},
		{"status 255", "ff 0000000000000007 0000", PublishAck{}, false},
		{"text past the end", "01 0000000000000007 0002 78", PublishAck{}, false},
		{"ignored text past the end", "00 0000000000000007 0002 78", PublishAck{}, false},
		{"text not UTF-8", "01 0000000000000007 0001 ff", PublishAck{}, false},
	}
	for _, tt := range tests {
		got, err := ParsePublishAck(unhex(t, tt.hex))
		if got != tt.want || (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrMalformedAck) {
			t.Errorf("%s: got %+v, %v; want %+v", tt.name, got, err, tt.want)
		}
	}
}

func TestNotFoundTexts(t *testing.T) {
	if got, want := StreamNotFoundText("t1", "default", "demo"), "stream not found: tenant=t1 namespace=default stream=demo"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := CacheNotFoundText("t1", "default", "primary"), "cache scope not found: t1/default/primary"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
