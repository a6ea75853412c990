package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"felix/transport"
	"felix/wire"
)

// F22: each resume asks for the record after the last one delivered; the first start option is not repeated.
func TestResumePosition(t *testing.T) {
	for name, opt := range map[string]SubscribeOption{"latest": FromLatest(), "earliest": FromEarliest()} {
		t.Run(name, func(t *testing.T) {
			b := newFakeBroker("s")
			b.offsets = true
			h := start(t, b)
			var resumed []uint64
			s := subscribe(t, h, "s", opt, OnResume(func(r Resumption) {
				if !r.FromOffset || !errors.Is(r.Cause, transport.ErrStatelessReset) || r.Attempts < 1 {
					t.Errorf("resumption %+v", r)
				}
				resumed = append(resumed, r.Offset)
			}))
			const cuts = 50
			var want, got []string
			for i := range cuts {
				b.emit("s", fmt.Sprint(i, "a"), fmt.Sprint(i, "b"))
				want = append(want, fmt.Sprint(i, "a"), fmt.Sprint(i, "b"))
				for _, ev := range read(t, s, 2) {
					if ev.Offset != uint64(len(got)) || !ev.HasOffset || ev.Skipped != 0 || ev.Resumed {
						t.Fatalf("event %d is %+v", len(got), ev)
					}
					got = append(got, string(ev.Payload))
				}
				h.cut()
			}
			b.emit("s", "last")
			got = append(got, texts(read(t, s, 1))...)
			if !slices.Equal(got, append(want, "last")) {
				t.Errorf("got %d events of %d", len(got), len(want))
			}
			if len(resumed) != cuts || s.Stats().Resumptions != cuts || h.Stats().Resumptions != cuts {
				t.Errorf("%d resumptions, stats %+v", len(resumed), s.Stats())
			}
			for i, off := range resumed {
				if off != uint64(2*(i+1)) {
					t.Errorf("resume %d asked for %d", i, off)
				}
			}
			for i, st := range b.starts[1:] {
				want := uint64(2*(i/2+1) - i%2) // each resume is followed by a look at the record before
				if st == nil || st.Kind != wire.StartOffset || st.Offset != want {
					t.Errorf("request %d: %+v, want offset %d", i+1, st, want)
				}
			}
			if n := h.net.live(); n > 2 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// A connection that breaks before the first event repeats a start that nothing was delivered from.
func TestResumeBeforeFirstEvent(t *testing.T) {
	b := newFakeBroker("s")
	b.offsets = true
	h := start(t, b)
	early := subscribe(t, h, "s", FromEarliest())
	tail := subscribe(t, h, "s", FromOffset(0))
	h.cut()
	b.emit("s", "missed", "seen")
	for _, s := range []*Subscription{early, tail} {
		if got := read(t, s, 2); !slices.Equal(texts(got), []string{"missed", "seen"}) || got[0].Resumed {
			t.Errorf("got %+v", got)
		}
		if s.Stats().Unknown != 0 {
			t.Errorf("stats %+v", s.Stats())
		}
	}
}

// Without offsets the subscription goes on with the latest record, and says so.
func TestResumeWithoutOffsets(t *testing.T) {
	b := newFakeBroker("s")
	h := start(t, b)
	s := subscribe(t, h, "s")
	strict := subscribe(t, h, "s", FailOnGap())
	b.emit("s", "a")
	read(t, s, 1)
	read(t, strict, 1)
	h.cut()
	b.emit("s", "missed")
	next := make(chan Event)
	go func() {
		ev, err := s.Next(context.Background())
		if err != nil {
			t.Error(err)
		}
		next <- ev
	}()
	waitFor(t, func() bool { return b.subscribers("s") == 3 || b.subscribers("s") == 1 && s.Stats().Resumptions == 1 })
	_, err := strict.Next(patient(t))
	var gap *GapError
	if !errors.As(err, &gap) || gap.Known {
		t.Errorf("strict: %v", err)
	}
	b.emit("s", "b", "c")
	if ev := <-next; string(ev.Payload) != "b" || !ev.Resumed || ev.Skipped != 0 {
		t.Errorf("got %+v", ev)
	}
	if ev := read(t, s, 1)[0]; string(ev.Payload) != "c" || ev.Resumed {
		t.Errorf("got %+v", ev)
	}
	if ev := read(t, strict, 1)[0]; string(ev.Payload) != "b" || ev.Resumed {
		t.Errorf("strict got %+v", ev)
	}
	if got := s.Stats(); got.Unknown != 1 || got.Resumptions != 1 {
		t.Errorf("stats %+v", got)
	}
	if last := b.starts[len(b.starts)-1]; last != nil {
		t.Errorf("resumed at %+v", last)
	}
}

// Records that the broker no longer has are reported with their bounds.
func TestResumeTooOld(t *testing.T) {
	b := newFakeBroker("s")
	b.offsets = true
	h := start(t, b)
	s := subscribe(t, h, "s")
	strict := subscribe(t, h, "s", FailOnGap())
	b.emit("s", "0", "1")
	read(t, s, 2)
	read(t, strict, 2)
	h.cut()
	b.emit("s", "2", "3", "4", "5")
	b.mu.Lock()
	b.topics["s"].oldest = 4
	b.mu.Unlock()
	if ev := read(t, s, 1)[0]; ev.Offset != 4 || ev.Skipped != 2 || ev.Resumed {
		t.Errorf("got %+v", ev)
	}
	if ev := read(t, s, 1)[0]; ev.Offset != 5 || ev.Skipped != 0 {
		t.Errorf("got %+v", ev)
	}
	_, err := strict.Next(patient(t))
	var gap *GapError
	if !errors.As(err, &gap) || *gap != (GapError{Known: true, From: 2, To: 4}) {
		t.Errorf("strict: %v", err)
	}
	if ev := read(t, strict, 1)[0]; ev.Offset != 4 || ev.Skipped != 0 {
		t.Errorf("strict got %+v", ev)
	}
	if got := s.Stats(); got.Skipped != 2 || got.Unknown != 0 {
		t.Errorf("stats %+v", got)
	}
}

// A broker that has lost its records starts again at 0: all it has is new.
func TestResumeInFuture(t *testing.T) {
	b := newFakeBroker("s")
	b.offsets = true
	h := start(t, b)
	s := subscribe(t, h, "s")
	b.emit("s", numbered(10)...)
	read(t, s, 10)
	b.mu.Lock()
	b.topics["s"].records = nil
	b.mu.Unlock()
	h.cut()
	b.emit("s", "first", "second")
	got := read(t, s, 2)
	if !slices.Equal(texts(got), []string{"first", "second"}) || !got[0].Resumed || got[0].Offset != 0 || got[1].Resumed {
		t.Errorf("got %+v", got)
	}
}

// A broker that has lost its records and has got so many new ones since that the old position exists again: without a look
// at the record before it, those up to it would be missing in silence.
func TestResumeRenumbered(t *testing.T) {
	b := newFakeBroker("s")
	b.offsets = true
	h := start(t, b)
	s := subscribe(t, h, "s")
	strict := subscribe(t, h, "s", FailOnGap())
	b.emit("s", "old 0", "old 1")
	read(t, s, 2)
	read(t, strict, 2)
	b.mu.Lock()
	b.topics["s"].records = nil
	b.mu.Unlock()
	h.cut()
	b.emit("s", "new 0", "new 1", "new 2", "new 3")
	got := read(t, s, 4)
	if !slices.Equal(texts(got), []string{"new 0", "new 1", "new 2", "new 3"}) || !got[0].Resumed || got[0].Skipped != 0 || got[1].Resumed {
		t.Errorf("got %+v", got)
	}
	if s.Stats().Unknown != 1 {
		t.Errorf("stats %+v", s.Stats())
	}
	_, err := strict.Next(patient(t))
	var gap *GapError
	if !errors.As(err, &gap) || gap.Known {
		t.Errorf("strict: %v", err)
	}
	if got := texts(read(t, strict, 4)); got[0] != "new 0" {
		t.Errorf("strict got %v", got)
	}
}

// Offsets that are not contiguous within a connection are gaps, too.
func TestGapWithoutReconnect(t *testing.T) {
	frames := func(uint64) []byte {
		var all []byte
		for _, base := range []uint64{10, 11, 15} {
			all = must(wire.AppendSharedEventBatch(all, &base, [][]byte{fmt.Append(nil, base)}))
		}
		return all
	}
	h := start(t, eventsOf(frames))
	events := read(t, subscribe(t, h, "s", FromOffset(8)), 3)
	for i, want := range []uint64{2, 0, 3} {
		if events[i].Skipped != want {
			t.Errorf("event %d: %+v, want %d skipped", i, events[i], want)
		}
	}
	if ev := read(t, subscribe(t, h, "s"), 1)[0]; ev.Skipped != 0 {
		t.Errorf("nothing is known to be missing before the first event of a subscription: %+v", ev)
	}
	var gaps []GapError
	var seen []uint64
	for ev, err := range subscribe(t, h, "s", FromOffset(8), FailOnGap()).All(patient(t)) {
		var gap *GapError
		if errors.As(err, &gap) {
			gaps = append(gaps, *gap)
		} else if err != nil {
			t.Fatal(err)
		} else {
			seen = append(seen, ev.Offset)
		}
	}
	if !slices.Equal(seen, []uint64{10, 11, 15}) ||
		!slices.Equal(gaps, []GapError{{Known: true, From: 8, To: 10}, {Known: true, From: 12, To: 15}}) {
		t.Errorf("seen %v, gaps %+v", seen, gaps)
	}
}

func TestWithoutResume(t *testing.T) {
	b := newFakeBroker("s")
	h := start(t, b)
	s := subscribe(t, h, "s", WithoutResume())
	h.cut()
	_, err := s.Next(patient(t))
	var lost *ConnectionError
	if !errors.As(err, &lost) || !errors.Is(err, transport.ErrStatelessReset) {
		t.Errorf("got %v", err)
	}
}

// A broker that stays away ends the waiting by ReconnectTimeout or by the context, whichever comes first.
func TestResumeGivesUp(t *testing.T) {
	b := newFakeBroker("s")
	h := start(t, b, func(c *Config) { c.ReconnectTimeout = 200 * time.Millisecond })
	s := subscribe(t, h, "s")
	patientOne := subscribe(t, h, "s")
	h.net.setServe(nil)
	h.cut()
	began := time.Now()
	_, err := s.Next(patient(t))
	var lost *ConnectionError
	if !errors.As(err, &lost) || !errors.Is(err, errUnreachable) || !lost.Timeout() {
		t.Errorf("got %v", err)
	}
	if d := time.Since(began); d < 100*time.Millisecond {
		t.Errorf("gave up after %v", d)
	}
	if _, again := s.Next(patient(t)); !errors.Is(again, err) {
		t.Errorf("again: %v", again)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := patientOne.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a context: %v", err)
	}
	h.net.setServe(b.serve)
	waiting := make(chan error)
	go func() {
		_, err := patientOne.Next(context.Background())
		waiting <- err
	}()
	waitFor(t, func() bool { return b.subscribers("s") > 2 })
	b.emit("s", "back")
	if err := <-waiting; err != nil {
		t.Errorf("after the context: %v", err)
	}
}

// A refusal to resume is final.
func TestResumeRefused(t *testing.T) {
	b := newFakeBroker("s")
	h := start(t, b)
	s := subscribe(t, h, "s")
	b.mu.Lock()
	delete(b.topics, "s")
	b.mu.Unlock()
	h.cut()
	_, err := s.Next(patient(t))
	var missing *NotFoundError
	if !errors.As(err, &missing) {
		t.Errorf("got %v", err)
	}
}

func TestCloseDuringResume(t *testing.T) {
	b := newFakeBroker("s")
	h := start(t, b, func(c *Config) { c.ReconnectTimeout = -1 })
	s := subscribe(t, h, "s")
	other := subscribe(t, h, "s")
	h.net.setServe(nil)
	h.cut()
	waiting := make(chan error, 2)
	for _, s := range []*Subscription{s, other} {
		go func() {
			_, err := s.Next(context.Background())
			waiting <- err
		}()
	}
	waitFor(t, func() bool { return h.Stats().DialFailures > 3 })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-waiting; !errors.Is(err, ErrClosed) {
		t.Errorf("subscription closed: %v", err)
	}
	if err := h.Close(patient(t)); err != nil {
		t.Error(err)
	}
	if err := <-waiting; !errors.Is(err, ErrClosed) {
		t.Errorf("client closed: %v", err)
	}
}
