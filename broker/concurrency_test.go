package broker

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
)

// Four publishers, eight subscribers that join at random places and leave
// again, and an observer who takes ledgers: every subscriber must see each
// publisher's numbers in order and none twice. Where no queue overflows, none is
// missing between its first and its last event; where queues do, what is missing
// is what was counted.
func TestPublishersAndSubscribersAtOnce(t *testing.T) {
	const publishers, subscribers, each = 4, 8, 1500
	tests := map[string]struct {
		policy Policy
		queue  int
		lossy  bool
	}{
		"block":               {PolicyBlock, 16, false},
		"drop_new":            {PolicyDropNew, 1 << 20, false},
		"drop_new overflows":  {PolicyDropNew, 4, true},
		"drop_old overflows":  {PolicyDropOld, 4, true},
		"block one at a time": {PolicyBlock, 1, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBroker(t, Options{SubPolicy: tt.policy, SubQueueBatches: tt.queue, RingEntries: 100})
			streams := []*Stream{newStreamOf(t, b, testKey), newStreamOf(t, b, Key{"t1", "default", "other"})}
			var publishing, reading, watching sync.WaitGroup
			var finished atomic.Bool
			c := newCompletions()
			for p := range uint64(publishers) {
				s := streams[p%2]
				a := b.NewAccount()
				publishing.Go(func() {
					for i := uint64(0); i < each; {
						n := 1 + int(i)%7
						batch := numbered(t, p<<32|i, n, 8+int(i)%90)
						i += uint64(n)
						err := b.Submit(context.Background(), Publication{Stream: s, Batch: batch, Account: a, Completer: c}, WaitForever)
						if err != nil {
							t.Errorf("submit: %v", err)
						}
					}
				})
			}
			for i := range subscribers {
				reading.Go(func() {
					for round := 0; !finished.Load(); round++ {
						readSome(t, streams[i%2], i+round, tt.lossy, &finished)
					}
				})
			}
			watching.Go(func() {
				for !finished.Load() {
					checkLedger(t, b.Stats().Total)
				}
			})
			publishing.Wait()
			submitted := int(b.Stats().Total.Counts[Submitted].Batches)
			c.wait(t, submitted)
			finished.Store(true)
			if err := b.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			reading.Wait()
			watching.Wait()
			st := b.Stats()
			checkLedger(t, st.Total)
			if st.Total.IngressQueued != (Tally{}) || st.Total.FanoutQueued != (Tally{}) || st.Subscriptions != 0 {
				t.Fatalf("left over: %+v", st)
			}
			if n := len(c.snapshot()); n != submitted {
				t.Fatalf("%d submitted, %d completed", submitted, n)
			}
		})
	}
}

// readSome subscribes, reads some rounds, leaves, and checks what it got.
func readSome(t *testing.T, s *Stream, seed int, lossy bool, finished *atomic.Bool) {
	o := SubscribeOptions{}
	if seed%3 > 0 {
		o.Start = earliest
	}
	q, err := s.Subscribe(o)
	if errors.Is(err, ErrClosed) {
		return
	}
	if err != nil {
		t.Errorf("subscribe: %v", err)
		return
	}
	got := q.Replay()
	replayed := len(got)
	dst := make([]Delivery, 0, 1+seed%9)
	for round := 0; round < 20+seed%50 && !finished.Load(); round++ {
		ds, err := q.Next(context.Background(), dst, 0)
		if errors.Is(err, io.EOF) {
			break
		}
		got = append(got, ds...)
	}
	if seed%2 == 0 {
		q.Close()
		got = append(got, rest(t, q)...)
	} else {
		q.Discard()
	}
	missing := checkOrder(t, got)
	if !lossy && missing != 0 {
		t.Errorf("%d events missing", missing)
	}
	st := q.Stats()
	if live := eventsIn(got[replayed:]); st.Delivered.Events != live || st.Queued.Events != 0 {
		t.Errorf("read %d live events, counted %+v", live, st)
	}
	// Drops before the first and after the last frame read leave no gap.
	if dropped := st.DroppedNew.Events + st.DroppedOld.Events; missing > dropped {
		t.Errorf("%d events missing, %d dropped", missing, dropped)
	}
}

func eventsIn(ds []Delivery) (n uint64) {
	for _, d := range ds {
		n += uint64(d.Count)
	}
	return n
}

// checkOrder fails when the deliveries are not in the order of the stream, or a
// publisher's own numbers are not; it returns how many events are missing
// between the first and the last.
func checkOrder(t *testing.T, ds []Delivery) (missing uint64) {
	last := map[uint64]uint64{}
	for i, d := range ds {
		gap := uint64(0)
		if i > 0 {
			end := ds[i-1].FirstSeq + uint64(ds[i-1].Count)
			if d.FirstSeq < end {
				t.Errorf("frame %d starts at %d, the one before ended at %d", i, d.FirstSeq, end)
				return 0
			}
			gap = d.FirstSeq - end
		}
		missing += gap
		for _, n := range numbersOf(t, d) {
			p, i := n>>32, n&0xffffffff
			if before, ok := last[p]; ok && (i <= before || missing == 0 && i != before+1) {
				t.Errorf("publisher %d: %d after %d", p, i, before)
				return 0
			}
			last[p] = i
		}
	}
	return missing
}

// Subscribing from the oldest event or from an offset while publications race
// by: replay and live join without loss or repetition, every time.
func TestSubscribeRacesWithPublish(t *testing.T) {
	b := newBroker(t, Options{RingEntries: 50, SubPolicy: PolicyBlock})
	s := newStreamOf(t, b, testKey)
	stop := make(chan struct{})
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for n := uint64(0); ; {
			select {
			case <-stop:
				return
			default:
			}
			count := 1 + int(n%5)
			err := b.Submit(context.Background(), Publication{Stream: s, Batch: numbered(t, n, count, 8)}, WaitForever)
			if err != nil {
				t.Errorf("submit: %v", err)
			}
			n += uint64(count)
		}
	})
	joined, withReplay := 0, 0
	for round := 0; joined < 300; round++ {
		o := SubscribeOptions{Start: earliest}
		if round%2 == 1 {
			o.Start = start(s.Info().NextSeq)
		}
		q, err := s.Subscribe(o)
		var cursor *CursorError
		if errors.As(err, &cursor) {
			continue // the ring moved past the offset: it holds only 50 events
		}
		if err != nil {
			t.Fatal(err)
		}
		joined++
		replay := q.Replay()
		if len(replay) > 0 {
			withReplay++
		}
		var live []Delivery
		for len(live) < 20 {
			live = append(live, next(t, q, 8)...)
		}
		q.Discard()
		got := numbersOf(t, append(replay, live...)...)
		if round%2 == 1 && got[0] != o.Start.Offset {
			t.Fatalf("asked for %d, got %d first", o.Start.Offset, got[0])
		}
		for i, n := range got {
			if n != got[0]+uint64(i) {
				t.Fatalf("event %d is %d, want %d; the replay had %d frames", i, n, got[0]+uint64(i), len(replay))
			}
		}
	}
	if withReplay == 0 {
		t.Fatal("no subscription had anything to replay: the test shows nothing")
	}
	close(stop)
	publishing.Wait()
}
