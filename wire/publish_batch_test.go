package wire

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPublishBatchRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := genPublishHeader().Draw(t, "header")
		payloads := genPayloads().Draw(t, "payloads")
		raw, err := AppendPublishBatch([]byte("ab"), h, payloads)
		if err != nil {
			t.Fatal(err)
		}
		raw = raw[2:]
		head, err := ParseHeader(raw, DefaultMaxFrameBytes)
		if err != nil || head.Flags != h.Flags() || int(head.Length) != len(raw)-HeaderLen {
			t.Fatalf("header %+v, %v", head, err)
		}
		if got := h.PayloadLen(len(payloads), totalBytes(payloads)); got != int(head.Length) {
			t.Fatalf("PayloadLen %d, frame has %d", got, head.Length)
		}
		tail := rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "tail")
		b, err := ParsePublishBatch(head.Flags, append(bytes.Clone(raw[HeaderLen:]), tail...))
		if err != nil {
			t.Fatal(err)
		}
		if got := headerOf(b); !equalHeaders(got, h) {
			t.Fatalf("got %+v, want %+v", got, h)
		}
		if !h.Acked && b.Ack != AckNone {
			t.Fatalf("ack mode %v on a batch without ack", b.Ack)
		}
		checkItems(t, b.Items, payloads)
	})
}

// checkItems compares a view with the payloads it must show.
func checkItems(t *rapid.T, it Items, want [][]byte) {
	if it.Len() != len(want) || it.Bytes() != totalBytes(want) || !equalLists(collect(it), want) {
		t.Fatalf("%d items of %d bytes %x, want %x", it.Len(), it.Bytes(), collect(it), want)
	}
	if len(it.Body()) != it.Bytes()+ItemOverhead*it.Len() {
		t.Fatalf("body of %d bytes", len(it.Body()))
	}
	if it.Raw() != nil && !bytes.Equal(it.Raw()[countLen:], it.Body()) {
		t.Fatal("Raw and Body differ")
	}
}

// Every cut of a valid frame must be refused, with the prefix valid from where
// the acked prefix ends.
func TestPublishBatchTruncated(t *testing.T) {
	h := PublishHeader{TenantID: "t1", Namespace: "default", Stream: "demo", Acked: true, RequestID: 7, Ack: AckPerBatch, HasKey: true, Key: []byte("kk")}
	raw, err := AppendPublishBatch(nil, h, [][]byte{[]byte("hello"), {}, []byte("world")})
	if err != nil {
		t.Fatal(err)
	}
	payload := raw[HeaderLen:]
	for n := range payload {
		b, err := ParsePublishBatch(h.Flags(), payload[:n:n])
		want := ErrMalformedBatch
		if n < ackedPrefixLen {
			want = ErrMalformedPrefix
		}
		if !errors.Is(err, want) {
			t.Errorf("cut at %d: error %v, want %v", n, err, want)
		}
		if want == ErrMalformedBatch && (!b.Acked || b.RequestID != 7 || b.Ack != AckPerBatch) {
			t.Errorf("cut at %d: prefix %+v is not valid", n, b)
		}
	}
}

func TestParsePublishBatchRefuses(t *testing.T) {
	const body = "0002 7431 0001 6e 0001 73 00000001 00000001 61"
	tests := []struct {
		name  string
		flags Flags
		hex   string
		err   error
	}{
		{"no publish flag", FlagPublishAcked, body, ErrUnsupportedFlags},
		{"no flag", 0, body, ErrUnsupportedFlags},
		{"event flag as well", FlagPublishBatch | FlagEventBatch, body, ErrUnsupportedFlags},
		{"offset flag as well", FlagPublishBatch | FlagEventOffsets, body, ErrUnsupportedFlags},
		{"idempotent producer", 0x0109, body, ErrUnsupportedFlags},
		{"empty", FlagPublishBatch, "", ErrMalformedBatch},
		{"ack mode 0", 0x0009, "0000000000000001 00" + body, ErrMalformedPrefix},
		{"ack mode 3", 0x0009, "0000000000000001 03" + body, ErrMalformedPrefix},
		{"ack mode 255", 0x0009, "0000000000000001 ff" + body, ErrMalformedPrefix},
		{"key past the end", 0x0041, "ffff 00", ErrMalformedBatch},
		{"key missing", 0x0041, "00", ErrMalformedBatch},
		{"namespace not UTF-8", 0x0001, "0001 74 0001 80 0001 73 00000000", ErrMalformedBatch},
		{"stream not UTF-8", 0x0001, "0001 74 0001 6e 0003 eda080 00000000", ErrMalformedBatch},
		{"count one too many", 0x0001, "0001 74 0001 6e 0001 73 00000002 00000001 61", ErrMalformedBatch},
		{"second item missing", 0x0001, "0001 74 0001 6e 0001 73 00000002 00000005 68656c6c6f", ErrMalformedBatch},
		{"item past the end", 0x0001, "0001 74 0001 6e 0001 73 00000001 00000002 61", ErrMalformedBatch},
		{"item of 4 GiB", 0x0001, "0001 74 0001 6e 0001 73 00000001 ffffffff 61", ErrMalformedBatch},
		{"count short", 0x0001, "0001 74 0001 6e 0001 73 000000", ErrMalformedBatch},
	}
	for _, tt := range tests {
		if _, err := ParsePublishBatch(tt.flags, unhex(t, tt.hex)); !errors.Is(err, tt.err) {
			t.Errorf("%s: error %v, want %v", tt.name, err, tt.err)
		}
	}
	if _, err := ParsePublishBatch(FlagPublishBatch, unhex(t, body)); err != nil {
		t.Errorf("the body itself is refused: %v", err)
	}
}

func TestParsePublishBatchAccepts(t *testing.T) {
	empty, err := ParsePublishBatch(FlagPublishBatch, unhex(t, "0000 0000 0000 00000000"))
	if err != nil || empty.Items.Len() != 0 || empty.Items.Bytes() != 0 || len(empty.Items.Raw()) != countLen {
		t.Errorf("empty batch: %+v, %v", empty, err)
	}
	keyed, err := ParsePublishBatch(0x0041, unhex(t, "0000 0000 0000 0000 00000000"))
	if err != nil || !keyed.HasKey || keyed.Key == nil || len(keyed.Key) != 0 {
		t.Errorf("empty key: %+v, %v", keyed, err)
	}
}

func TestAppendPublishBatchRefuses(t *testing.T) {
	long := strings.Repeat("x", MaxIDLen+1)
	tests := []struct {
		name string
		h    PublishHeader
		err  error
	}{
		{"tenant", PublishHeader{TenantID: long}, ErrIDTooLong},
		{"namespace", PublishHeader{Namespace: long}, ErrIDTooLong},
		{"stream", PublishHeader{Stream: long}, ErrIDTooLong},
		{"key", PublishHeader{HasKey: true, Key: []byte(long)}, ErrIDTooLong},
		{"UTF-8", PublishHeader{Stream: "\xff"}, ErrInvalidUTF8},
		{"no ack mode", PublishHeader{Acked: true}, ErrInvalidAckMode},
		{"ack none", PublishHeader{Acked: true, Ack: AckNone}, ErrInvalidAckMode},
	}
	for _, tt := range tests {
		got, err := AppendPublishBatch([]byte("keep"), tt.h, nil)
		if !errors.Is(err, tt.err) || string(got) != "keep" {
			t.Errorf("%s: got %q, %v; want %v", tt.name, got, err, tt.err)
		}
		var b BatchBuilder
		if err := b.Begin(nil, tt.h); !errors.Is(err, tt.err) || b.PayloadLen() != 0 {
			t.Errorf("%s: builder: %v, want %v", tt.name, err, tt.err)
		}
	}
	exact := PublishHeader{TenantID: long[:MaxIDLen], Namespace: long[:MaxIDLen], Stream: long[:MaxIDLen]}
	raw, err := AppendPublishBatch(nil, exact, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := ParsePublishBatch(FlagPublishBatch, raw[HeaderLen:]); err != nil || len(b.Stream) != MaxIDLen {
		t.Errorf("longest ids: %v", err)
	}
}

func TestBatchBuilder(t *testing.T) {
	var b BatchBuilder
	rapid.Check(t, func(t *rapid.T) {
		h := genPublishHeader().Draw(t, "header")
		payloads := genPayloads().Draw(t, "payloads")
		want, err := AppendPublishBatch([]byte("ab"), h, payloads)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Begin([]byte("ab"), h); err != nil {
			t.Fatal(err)
		}
		for i, p := range payloads {
			if b.Len() != i || b.PayloadLen() != h.PayloadLen(i, b.Bytes()) {
				t.Fatalf("%d items, %d bytes of payload", b.Len(), b.PayloadLen())
			}
			b.Add(p)
		}
		if b.Bytes() != totalBytes(payloads) {
			t.Fatalf("%d bytes", b.Bytes())
		}
		got, err := b.Finish()
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("got %x, %v\nwant %x", got, err, want)
		}
		if again, err := b.Finish(); again != nil || err != nil {
			t.Fatalf("a second Finish gave %x, %v", again, err)
		}
	})
}

func TestSharedEventInPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := genPublishHeader().Draw(t, "header")
		payloads := genPayloads().Draw(t, "payloads")
		raw, err := AppendPublishBatch(nil, h, payloads)
		if err != nil {
			t.Fatal(err)
		}
		tail := rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "tail")
		raw = append(raw, tail...)
		PutHeader(raw, h.Flags(), len(raw)-HeaderLen)
		// Neighbours in the slab must stay untouched.
		slab := append(append([]byte("before"), raw...), "after"...)
		fr := Frame{Flags: h.Flags(), Raw: slab[6 : 6+len(raw)]}
		b, err := ParsePublishBatch(fr.Flags, fr.Payload())
		if err != nil {
			t.Fatal(err)
		}
		got := SharedEventInPlace(fr, b)
		want, err := AppendSharedEventBatch(nil, nil, payloads)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) || cap(got) != len(got) {
			t.Fatalf("got %x (cap %d)\nwant %x", got, cap(got), want)
		}
		checkItems(t, b.Items, payloads)
		if len(payloads) > 0 && &got[len(got)-len(b.Items.Body())] != &b.Items.Body()[0] {
			t.Fatal("the payloads were copied")
		}
		if !bytes.HasPrefix(slab, []byte("before")) || !bytes.HasSuffix(slab, append(tail, "after"...)) {
			t.Fatalf("bytes around the event frame changed: %x", slab)
		}
	})
}

func TestSharedEventInPlaceForeignBatch(t *testing.T) {
	raw, err := AppendPublishBatch(nil, PublishHeader{TenantID: "t", Namespace: "n", Stream: "s"}, [][]byte{[]byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	b, err := ParsePublishBatch(FlagPublishBatch, raw[HeaderLen:])
	if err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func(){
		"other frame": func() { SharedEventInPlace(Frame{Flags: FlagPublishBatch, Raw: bytes.Clone(raw)}, b) },
		"short frame": func() { SharedEventInPlace(Frame{Flags: FlagPublishBatch, Raw: raw[:20]}, b) },
		"zero batch":  func() { SharedEventInPlace(Frame{Flags: FlagPublishBatch, Raw: raw}, PublishBatch{}) },
	} {
		before := bytes.Clone(raw)
		if !panics(call) {
			t.Errorf("%s: no panic", name)
		}
		if !bytes.Equal(raw, before) {
			t.Errorf("%s: the frame was written to", name)
		}
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}
