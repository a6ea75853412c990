package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"reflect"
	"testing"
)

// addFrames seeds f with the payloads of all vectors, the refused ones included.
func addFrames(f *testing.F, add func(flags Flags, raw []byte)) {
	for _, v := range loadVectors(f) {
		add(v.Flags, unhex(f, v.FrameHex))
	}
	for _, v := range loadRejects(f) {
		raw := unhex(f, v.FrameHex)
		add(Flags(raw[6])<<8|Flags(raw[7]), raw)
	}
}

func FuzzParseHeader(f *testing.F) {
	addFrames(f, func(_ Flags, raw []byte) { f.Add(raw, DefaultMaxFrameBytes) })
	f.Fuzz(func(t *testing.T, b []byte, maxFrame int) {
		h, err := ParseHeader(b, maxFrame)
		if err != nil {
			if h != (Header{}) {
				t.Fatalf("header %+v with error %v", h, err)
			}
			return
		}
		if int64(h.Length) > int64(maxFrame) {
			t.Fatalf("length %d is over the limit %d", h.Length, maxFrame)
		}
		if int64(h.Length) <= math.MaxInt && !bytes.Equal(AppendHeader(nil, h.Flags, int(h.Length)), b[:HeaderLen]) {
			t.Fatalf("%+v does not encode to %x", h, b[:HeaderLen])
		}
	})
}

func FuzzFrameReader(f *testing.F) {
	var all []byte
	addFrames(f, func(_ Flags, raw []byte) {
		f.Add(raw, uint16(5), uint16(0))
		all = append(all, raw...)
	})
	f.Add(all, uint16(100), uint16(3))
	f.Add(append(AppendHeader(nil, 0, 3*maxSlab), make([]byte, 3*maxSlab+20)...), uint16(1000), uint16(1))
	f.Fuzz(func(t *testing.T, stream []byte, chunkA, chunkB uint16) {
		sizes := []int{int(chunkA), int(chunkB), 1}
		checkStream(t, stream, 1<<16, &chunkReader{data: stream, sizes: sizes})
	})
}

func FuzzParseMessage(f *testing.F) {
	addFrames(f, func(_ Flags, raw []byte) { f.Add(raw[HeaderLen:]) })
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		m, err := ParseMessage(b)
		if !bytes.Equal(b, before) {
			t.Fatal("the payload was written to")
		}
		if err != nil {
			if _, ok := errors.AsType[*MessageError](err); !ok || m != nil {
				t.Fatalf("message %v, error %T %v", m, err, err)
			}
			return
		}
		var other struct{ Type string }
		if err := json.Unmarshal(b, &other); err != nil {
			t.Fatalf("encoding/json refuses what was accepted: %v", err)
		}
		text, err := AppendMessage(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseMessage(text)
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("%#v became %#v, %v", m, again, err)
		}
	})
}

func FuzzParsePublishBatch(f *testing.F) {
	addFrames(f, func(flags Flags, raw []byte) { f.Add(uint16(flags), raw[HeaderLen:]) })
	f.Fuzz(func(t *testing.T, flags uint16, payload []byte) {
		fl := Flags(flags)
		raw := append(AppendHeader(nil, fl, len(payload)), payload...)
		fr := Frame{Flags: fl, Raw: raw}
		b, err := ParsePublishBatch(fl, fr.Payload())
		if !bytes.Equal(fr.Payload(), payload) {
			t.Fatal("the payload was written to")
		}
		if err != nil {
			switch {
			case errors.Is(err, ErrUnsupportedFlags), errors.Is(err, ErrMalformedPrefix):
			case errors.Is(err, ErrMalformedBatch):
				if b.Acked != fl.Has(FlagPublishAcked) {
					t.Fatalf("prefix %+v with error %v", b, err)
				}
			default:
				t.Fatalf("error %v", err)
			}
			return
		}
		payloads := collect(b.Items)
		again, err := AppendPublishBatch(nil, headerOf(b), payloads)
		if err != nil || !bytes.HasPrefix(payload, again[HeaderLen:]) {
			t.Fatalf("%x encodes to %x, %v", payload, again, err)
		}
		want, err := AppendSharedEventBatch(nil, nil, payloads)
		if err != nil {
			t.Fatal(err)
		}
		if got := SharedEventInPlace(fr, b); !bytes.Equal(got, want) {
			t.Fatalf("in place %x, want %x", got, want)
		}
	})
}

func FuzzParseEventBatch(f *testing.F) {
	addFrames(f, func(flags Flags, raw []byte) { f.Add(uint16(flags), raw[HeaderLen:]) })
	f.Fuzz(func(t *testing.T, flags uint16, payload []byte) {
		b, err := ParseEventBatch(Flags(flags), payload)
		if err != nil {
			if !errors.Is(err, ErrUnsupportedFlags) && !errors.Is(err, ErrMalformedEvents) {
				t.Fatalf("error %v", err)
			}
			return
		}
		var subID, base *uint64
		if !b.Shared {
			subID = &b.SubscriptionID
		}
		if b.HasBase {
			base = &b.BaseOffset
		}
		raw, err := appendEvents(nil, subID, base, collect(b.Items))
		if err != nil || !bytes.HasPrefix(payload, raw[HeaderLen:]) || raw[7] != byte(flags) {
			t.Fatalf("flags %#x %x encodes to %x, %v", flags, payload, raw, err)
		}
	})
}

func FuzzParsePublishAck(f *testing.F) {
	addFrames(f, func(_ Flags, raw []byte) { f.Add(raw[HeaderLen:]) })
	f.Fuzz(func(t *testing.T, payload []byte) {
		ack, err := ParsePublishAck(payload)
		if err != nil {
			if !errors.Is(err, ErrMalformedAck) || ack != (PublishAck{}) {
				t.Fatalf("%+v, error %v", ack, err)
			}
			return
		}
		if !ack.Failed && ack.Message != "" {
			t.Fatalf("success with a message: %+v", ack)
		}
		again, err := ParsePublishAck(AppendPublishAck(nil, ack.RequestID, ack.Message)[HeaderLen:])
		if err != nil || again.RequestID != ack.RequestID || again.Failed != (ack.Message != "") {
			t.Fatalf("%+v became %+v, %v", ack, again, err)
		}
		if len(ack.Message) <= MaxAckErrorText && again.Message != ack.Message {
			t.Fatalf("message %q became %q", ack.Message, again.Message)
		}
	})
}

func FuzzSplitItems(f *testing.F) {
	addFrames(f, func(_ Flags, raw []byte) { f.Add(raw[HeaderLen:], 2, 5) })
	f.Add(appendItems(nil, [][]byte{{}, []byte("abc"), {}, []byte("defghijkl"), {}}), 3, 4)
	f.Fuzz(func(t *testing.T, b []byte, maxEvents, maxBytes int) {
		it, err := parseItems(b)
		if err != nil {
			return
		}
		runs := collectRuns(it, maxEvents, maxBytes)
		checkRuns(t, it, runs, maxEvents, maxBytes)
		for _, run := range runs {
			frame, err := NewFrameReader(bytes.NewReader(AppendSharedEvents(nil, nil, run)), math.MaxInt32).Next()
			if err != nil && err != io.EOF {
				t.Fatal(err)
			}
			again, err := ParseEventBatch(frame.Flags, frame.Payload())
			if err != nil || !equalLists(collect(again.Items), collect(run)) {
				t.Fatalf("run of %d items became %d, %v", run.Len(), again.Items.Len(), err)
			}
		}
	})
}
