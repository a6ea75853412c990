package broker

import (
	"testing"

	"pgregory.net/rapid"

	"felix/wire"
)

func TestDequeMatchesSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d deque[int]
		var model []int
		n := 0
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				for range rapid.IntRange(1, 40).Draw(t, "count") {
					d.push(n)
					model = append(model, n)
					n++
				}
			},
			"pop": func(t *rapid.T) {
				for range rapid.IntRange(1, 40).Draw(t, "count") {
					if len(model) == 0 {
						return
					}
					if got := d.pop(); got != model[0] {
						t.Fatalf("popped %d, want %d", got, model[0])
					}
					model = model[1:]
				}
			},
			"": func(t *rapid.T) {
				if d.len() != len(model) {
					t.Fatalf("length %d, want %d", d.len(), len(model))
				}
				for i, want := range model {
					if got := *d.at(i); got != want {
						t.Fatalf("element %d is %d, want %d", i, got, want)
					}
				}
			},
		})
	})
}

func TestDequeForgetsAndShrinks(t *testing.T) {
	var d deque[*int]
	for range keepDeque + 1 {
		d.push(new(int))
	}
	for d.len() > 1 {
		d.pop()
	}
	for i, p := range d.buf {
		if p != nil && i != d.head {
			t.Fatalf("slot %d still refers to a popped element", i)
		}
	}
	d.pop()
	if len(d.buf) != 0 {
		t.Fatalf("an emptied queue holds on to %d slots", len(d.buf))
	}
}

// ringModel is the specification: every event there ever was, and how many of
// the newest are held.
type ringModel struct {
	events  []Delivery // one for each event: the frame it is in
	maxHeld int
	maxSize int64
}

// oldest returns the number of the oldest event held.
func (m *ringModel) oldest() uint64 {
	next := len(m.events)
	first := next
	var size int64
	for first > 0 {
		frame := m.events[first-1]
		size += int64(len(frame.Frame))
		if first < next && size > m.maxSize {
			break
		}
		first = int(frame.FirstSeq)
	}
	return uint64(max(first, next-m.maxHeld, 0))
}

// Ring and cursor against the model: batches of any shape go in; a subscriber
// at any offset gets either the right error or exactly the events from there.
func TestRingAndCursorMatchModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		maxHeld := rapid.IntRange(1, 20).Draw(t, "ring entries")
		maxSize := rapid.Int64Range(1, 2000).Draw(t, "ring bytes")
		b := New(Options{Workers: 1, RingEntries: maxHeld, RingBytes: maxSize, EventBatchMaxEvents: 8, EventBatchMaxBytes: 200})
		defer b.Close(t.Context())
		s := newStreamOf(t, b, testKey)
		m := ringModel{maxHeld: maxHeld, maxSize: maxSize}
		live := subscribe(t, s, SubscribeOptions{})
		t.Repeat(map[string]func(*rapid.T){
			"publish": func(t *rapid.T) {
				next := uint64(len(m.events))
				count := rapid.IntRange(0, 12).Draw(t, "events")
				publish(t, b, s, numbered(t, next, count, rapid.IntRange(8, 150).Draw(t, "size")))
				got := 0
				for got < count { // how it was split is known from what was delivered
					for _, d := range next0(t, live) {
						if d.FirstSeq != uint64(len(m.events)) {
							t.Fatalf("frame starts at %d, want %d", d.FirstSeq, len(m.events))
						}
						if d.Count > 8 || (d.Bytes > 200 && d.Count > 1) {
							t.Fatalf("frame of %d events, %d bytes", d.Count, d.Bytes)
						}
						for range d.Count {
							m.events = append(m.events, d)
						}
						got += d.Count
					}
				}
			},
			"subscribe": func(t *rapid.T) {
				n := rapid.Uint64Range(0, uint64(len(m.events))+2).Draw(t, "offset")
				checkCursor(t, s, &m, n)
			},
			"": func(t *rapid.T) {
				s.mu.Lock()
				defer s.mu.Unlock()
				r := &s.ring
				if n := r.frames.len(); n > 1 && (r.bytes > maxSize || r.events-r.frames.at(0).Count >= maxHeld) {
					t.Fatalf("holds %d frames, %d events, %d bytes", n, r.events, r.bytes)
				}
			},
			"earliest": func(t *rapid.T) {
				sub := subscribe(t, s, SubscribeOptions{Start: earliest})
				defer sub.Discard()
				checkReplay(t, sub, m.oldest(), uint64(len(m.events)))
			},
		})
		checkLedger(t, s.Ledger())
	})
}

func next0(t tester, sub *Subscription) []Delivery { return next(t, sub, 64) }

func checkCursor(t *rapid.T, s *Stream, m *ringModel, n uint64) {
	tail := uint64(len(m.events))
	sub, err := s.Subscribe(SubscribeOptions{Start: start(n)})
	var want *CursorError
	switch oldest := m.oldest(); {
	case n < oldest:
		want = &CursorError{wire.CursorTooOld, n, oldest}
	case n > tail:
		want = &CursorError{wire.CursorInFuture, n, tail}
	}
	if want != nil {
		got, ok := err.(*CursorError)
		if !ok || *got != *want {
			t.Fatalf("subscribe at %d: %v, want %v", n, err, want)
		}
		return
	}
	if err != nil {
		t.Fatalf("subscribe at %d of %d..%d: %v", n, m.oldest(), tail, err)
	}
	defer sub.Discard()
	checkReplay(t, sub, n, tail)
}

func checkReplay(t *rapid.T, sub *Subscription, from, to uint64) {
	replay := sub.Replay()
	got := numbersOf(t, replay...)
	if len(got) != int(to-from) {
		t.Fatalf("replay has %d events, want %d to %d", len(got), from, to)
	}
	for i, n := range got {
		if n != from+uint64(i) {
			t.Fatalf("event %d of the replay is number %d, want %d", i, n, from+uint64(i))
		}
	}
	for i, d := range replay {
		if i > 0 && d.Skip != 0 {
			t.Fatalf("frame %d of the replay skips %d", i, d.Skip)
		}
		if i == 0 && d.FirstSeq+uint64(d.Skip) != from {
			t.Fatalf("replay starts at %d+%d, want %d", d.FirstSeq, d.Skip, from)
		}
	}
	if sub.Replay() != nil {
		t.Fatalf("the replay was handed over twice")
	}
}

func TestRingOff(t *testing.T) {
	b := newBroker(t, Options{RingEntries: -1})
	s := newStreamOf(t, b, testKey)
	publish(t, b, s, numbered(t, 0, 3, 8))
	info := s.Info()
	if info.OldestSeq != 3 || info.NextSeq != 3 || info.RingBytes != 0 {
		t.Fatalf("ring that is off: %+v", info)
	}
	sub := subscribe(t, s, SubscribeOptions{Start: earliest})
	defer sub.Discard()
	if r := sub.Replay(); r != nil {
		t.Fatalf("replay of %d frames without a ring", len(r))
	}
}

func TestStreamOptionsOverrideRing(t *testing.T) {
	b := newBroker(t, Options{RingEntries: 100})
	if err := b.CreateStream(testKey, StreamOptions{RingEntries: 2}); err != nil {
		t.Fatal(err)
	}
	s, _ := b.Stream(testKey)
	publish(t, b, s, numbered(t, 0, 1, 8))
	publish(t, b, s, numbered(t, 1, 5, 8))
	if got := s.Info(); got.OldestSeq != 4 || got.NextSeq != 6 {
		t.Fatalf("ring of 2 holds %d..%d", got.OldestSeq, got.NextSeq)
	}
	if got := s.Ledger().Counts[RingEvicted]; got != (Tally{1, 1, 8}) {
		t.Fatalf("evicted %+v", got)
	}
}
