package client

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"felix/wire"
)

// eventsOf makes a broker that writes the given frames to each new subscription and answers it.
func eventsOf(frames func(id uint64) []byte) *fakeBroker {
	b := newFakeBroker("s")
	b.onSubscribe = func(c serverConn, st stream, _ *wire.Subscribe) bool {
		b.lastSub++
		uni, err := c.OpenUniStream(context.Background())
		if err != nil {
			return true
		}
		send(uni, &wire.EventStreamHello{SubscriptionID: b.lastSub})
		send(st, &wire.Subscribed{SubscriptionID: b.lastSub})
		_, _ = uni.Write(frames(b.lastSub))
		_ = uni.CloseWrite()
		return true
	}
	return b
}

func must(frame []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return frame
}

func TestEventLayouts(t *testing.T) {
	base := uint64(5)
	two := [][]byte{[]byte("a"), []byte("b")}
	for name, c := range map[string]struct {
		frames  func(id uint64) []byte
		offsets bool
	}{
		"shared":          {func(uint64) []byte { return must(wire.AppendSharedEventBatch(nil, nil, two)) }, false},
		"shared, offsets": {func(uint64) []byte { return must(wire.AppendSharedEventBatch(nil, &base, two)) }, true},
		"own":             {func(id uint64) []byte { return must(wire.AppendEventBatch(nil, id, nil, two)) }, false},
		"own, offsets":    {func(id uint64) []byte { return must(wire.AppendEventBatch(nil, id, &base, two)) }, true},
		"json batch":      {func(uint64) []byte { return must(wire.AppendMessageFrame(nil, &wire.EventBatchJSON{Payloads: two})) }, false},
		"json, offsets": {func(uint64) []byte {
			return must(wire.AppendMessageFrame(nil, &wire.EventBatchJSON{Payloads: two, BaseOffset: &base}))
		}, true},
		"json single":      {func(uint64) []byte { return jsonEvents(two, nil) }, false},
		"json single, off": {func(uint64) []byte { return jsonEvents(two, &base) }, true},
		"with empty frames": {func(id uint64) []byte {
			f := must(wire.AppendSharedEventBatch(nil, nil, nil))
			f = must(wire.AppendEventBatch(f, id, nil, two[:1]))
			f = must(wire.AppendMessageFrame(f, &wire.EventBatchJSON{}))
			return must(wire.AppendSharedEventBatch(f, nil, two[1:]))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, eventsOf(c.frames))
			s := subscribe(t, h, "s")
			events := read(t, s, 2)
			if got := texts(events); !slices.Equal(got, []string{"a", "b"}) {
				t.Errorf("got %v", got)
			}
			for i, ev := range events {
				if ev.HasOffset != c.offsets || c.offsets && ev.Offset != base+uint64(i) || ev.Skipped != 0 || ev.Resumed {
					t.Errorf("event %d: %+v", i, ev)
				}
				if cap(ev.Payload) != len(ev.Payload) {
					t.Errorf("event %d: room to overwrite what follows", i)
				}
			}
			for range 2 {
				if _, err := s.Next(patient(t)); !errors.Is(err, io.EOF) {
					t.Errorf("at the end: %v", err)
				}
			}
		})
	}
}

func jsonEvents(list [][]byte, base *uint64) (frames []byte) {
	for i, p := range list {
		m := &wire.Event{TenantID: "t1", Namespace: "default", Stream: "s", Payload: p}
		if base != nil {
			off := *base + uint64(i)
			m.Offset = &off
		}
		frames = must(wire.AppendMessageFrame(frames, m))
	}
	return frames
}

func TestEventStreamViolations(t *testing.T) {
	good := must(wire.AppendSharedEventBatch(nil, nil, [][]byte{[]byte("first")}))
	for name, c := range map[string]struct {
		frames func(id uint64) []byte
		text   string
	}{
		"other subscription": {func(id uint64) []byte { return must(wire.AppendEventBatch(nil, id+1, nil, [][]byte{{}})) }, "on the stream of subscription"},
		"unknown flags":      {func(uint64) []byte { return wire.AppendHeader(nil, 0x0804, 0) }, "unreadable frame"},
		"count bomb": {func(uint64) []byte {
			return append(wire.AppendHeader(nil, wire.FlagEventBatchShared, 4), 255, 255, 255, 255)
		}, "unreadable frame"},
		"bad magic":      {func(uint64) []byte { return make([]byte, 12) }, "magic"},
		"over the limit": {func(uint64) []byte { return wire.AppendHeader(nil, wire.FlagEventBatchShared, 17<<20) }, "exceeds"},
		"cut short":      {func(uint64) []byte { return append(wire.AppendHeader(nil, wire.FlagEventBatchShared, 100), 0) }, "inside a frame"},
		"wrong message":  {func(uint64) []byte { return must(wire.AppendMessageFrame(nil, &wire.PublishOK{})) }, "unexpected message"},
		"not JSON":       {func(uint64) []byte { return append(wire.AppendHeader(nil, 0, 1), 'x') }, "unreadable message"},
		"error message":  {func(uint64) []byte { return must(wire.AppendMessageFrame(nil, &wire.Error{Message: "queue full"})) }, "queue full"},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, eventsOf(func(id uint64) []byte { return append(slices.Clone(good), c.frames(id)...) }))
			s := subscribe(t, h, "s")
			read(t, s, 1)
			_, err := s.Next(patient(t))
			if err == nil || !strings.Contains(err.Error(), c.text) {
				t.Fatalf("got %v", err)
			}
			if _, again := s.Next(patient(t)); !errors.Is(again, err) {
				t.Errorf("the error must stay, got %v", again)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
