package broker

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// offerRun offers frames the way a worker does.
func offerRun(s *Stream, frames []Delivery) {
	r := newDeliveryRun(frames)
	s.mu.Lock()
	for _, q := range s.subs {
		q.offer(&r)
	}
	s.mu.Unlock()
}

// queueModel is the specification of one subscription's queue.
type queueModel struct {
	policy     Policy
	maxBatches int
	maxBytes   int64
	queue      []Delivery
	dropped    Tally
}

func (m *queueModel) bytes() (n int64) {
	for _, d := range m.queue {
		n += int64(len(d.Frame))
	}
	return n
}

func (m *queueModel) room(d Delivery) bool {
	return len(m.queue) == 0 || len(m.queue) < m.maxBatches && m.bytes()+int64(len(d.Frame)) <= m.maxBytes
}

func (m *queueModel) offer(d Delivery) {
	switch {
	case m.policy == PolicyBlock || m.room(d):
	case m.policy == PolicyDropNew:
		m.dropped.add(d.Count, d.Bytes)
		return
	default:
		for !m.room(d) {
			m.dropped.add(m.queue[0].Count, m.queue[0].Bytes)
			m.queue = m.queue[1:]
		}
	}
	m.queue = append(m.queue, d)
}

func (m *queueModel) stalled() bool {
	return len(m.queue) > 1 && (len(m.queue) > m.maxBatches || m.bytes() > m.maxBytes)
}

func TestQueueMatchesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &queueModel{
			policy:     rapid.SampledFrom([]Policy{PolicyDropNew, PolicyBlock, PolicyDropOld}).Draw(t, "policy"),
			maxBatches: rapid.IntRange(1, 6).Draw(t, "batches"),
			maxBytes:   rapid.Int64Range(1, 400).Draw(t, "bytes"),
		}
		b := New(Options{Workers: 1, SubQueueBatches: m.maxBatches, SubQueueBytes: m.maxBytes, SubPolicy: m.policy})
		defer b.Close(t.Context())
		s := newStreamOf(t, b, testKey)
		q := subscribe(t, s, SubscribeOptions{})
		defer q.Discard()
		seq := uint64(0)
		stalls := false
		t.Repeat(map[string]func(*rapid.T){
			"offer": func(t *rapid.T) {
				if stalls {
					return // a worker offers nothing more then
				}
				var run []Delivery
				for range rapid.IntRange(1, 4).Draw(t, "frames") {
					batch := numbered(t, seq, rapid.IntRange(1, 3).Draw(t, "events"), rapid.IntRange(8, 100).Draw(t, "size"))
					d := Delivery{Frame: batch.Frame, Count: batch.Count, Bytes: batch.Bytes, FirstSeq: seq}
					seq += uint64(d.Count)
					run = append(run, d)
					m.offer(d)
				}
				offerRun(s, run)
				stalls = m.stalled()
			},
			"take": func(t *rapid.T) {
				if len(m.queue) == 0 {
					return
				}
				limit := rapid.IntRange(1, 5).Draw(t, "limit")
				maxBytes := rapid.IntRange(0, 300).Draw(t, "max bytes")
				got, err := q.Next(t.Context(), make([]Delivery, 0, limit), maxBytes)
				if err != nil {
					t.Fatalf("next: %v", err)
				}
				n, size := 0, 0
				for n < min(limit, len(m.queue)) {
					size += len(m.queue[n].Frame)
					if n > 0 && maxBytes > 0 && size > maxBytes {
						break
					}
					n++
				}
				if want := m.queue[:n]; !slices.EqualFunc(got, want, func(a, b Delivery) bool { return a.FirstSeq == b.FirstSeq && a.Count == b.Count }) {
					t.Fatalf("took %v, want %v", got, want)
				}
				m.queue = m.queue[n:]
				stalls = stalls && m.stalled()
			},
			"": func(t *rapid.T) {
				st := q.Stats()
				var queued Tally
				for _, d := range m.queue {
					queued.add(d.Count, d.Bytes)
				}
				if st.Queued != queued || st.QueuedBytes != m.bytes() {
					t.Fatalf("queued %+v, %d bytes; want %+v, %d", st.Queued, st.QueuedBytes, queued, m.bytes())
				}
				if got := st.DroppedNew.Plus(st.DroppedOld); got != m.dropped {
					t.Fatalf("dropped %+v, want %+v", got, m.dropped)
				}
				if got := s.stalled.Load() > 0; got != stalls {
					t.Fatalf("stalled: %v, want %v", got, stalls)
				}
				if m.policy != PolicyBlock && len(m.queue) > 1 && (len(m.queue) > m.maxBatches || st.QueuedBytes > m.maxBytes) {
					t.Fatalf("queue over its bounds: %+v", st)
				}
				checkLedgerStage(t, s.Ledger(), "fanout")
			},
		})
	})
}

func checkLedgerStage(t tester, l Ledger, name string) {
	t.Helper()
	for _, st := range l.Stages() {
		if b, e, by := l.Imbalance(st); st.Name == name && (b != 0 || e != 0 || by != 0) {
			t.Fatalf("%s: %d batches, %d events, %d bytes unaccounted for", name, b, e, by)
		}
	}
}

func TestNextWaitsForContext(t *testing.T) {
	b := newBroker(t, Options{})
	q := subscribe(t, newStreamOf(t, b, testKey), SubscribeOptions{})
	defer q.Discard()
	ctx, cancel := context.WithCancelCause(context.Background())
	gone := errors.New("reader gone")
	cancel(gone)
	if _, err := q.Next(ctx, nil, 0); !errors.Is(err, gone) {
		t.Fatalf("next: %v", err)
	}
}

func TestNextReturnsWhatIsQueuedDespiteContext(t *testing.T) {
	b := newBroker(t, Options{})
	s := newStreamOf(t, b, testKey)
	q := subscribe(t, s, SubscribeOptions{})
	defer q.Discard()
	publish(t, b, s, numbered(t, 0, 1, 8))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if ds, err := q.Next(ctx, nil, 0); err != nil || len(ds) != 1 {
		t.Fatalf("next: %d frames, %v", len(ds), err)
	}
}

func TestCloseDrainsDiscardDoesNot(t *testing.T) {
	b := newBroker(t, Options{})
	s := newStreamOf(t, b, testKey)
	closed := subscribe(t, s, SubscribeOptions{})
	discarded := subscribe(t, s, SubscribeOptions{})
	publish(t, b, s, numbered(t, 0, 2, 8))
	closed.Close()
	discarded.Discard()
	publish(t, b, s, numbered(t, 2, 1, 8))
	if got := numbersOf(t, rest(t, closed)...); !slices.Equal(got, seqRange(0, 2)) {
		t.Fatalf("closed subscription got %v", got)
	}
	if got := rest(t, discarded); len(got) != 0 {
		t.Fatalf("discarded subscription got %d frames", len(got))
	}
	if st := discarded.Stats(); st.DroppedClosed != (Tally{1, 2, 16}) || !st.Closed {
		t.Fatalf("discarded: %+v", st)
	}
	// Ending again changes nothing.
	discarded.Discard()
	closed.Discard()
	closed.Close()
	checkLedger(t, s.Ledger())
	if c := s.Ledger().Counts; c[DroppedClosed].Batches != 1 || c[Delivered].Batches != 1 || c[Offered].Batches != 2 {
		t.Fatalf("counts: %+v", c)
	}
	if n := s.Info().Subscriptions; n != 0 || b.Stats().Subscriptions != 0 {
		t.Fatalf("%d subscriptions left", n)
	}
}

func TestDiscardWakesReader(t *testing.T) {
	b := newBroker(t, Options{})
	q := subscribe(t, newStreamOf(t, b, testKey), SubscribeOptions{})
	got := make(chan error, 1)
	go func() {
		_, err := q.Next(context.Background(), nil, 0)
		got <- err
	}()
	eventually(t, "the reader parks", func() bool { q.mu.Lock(); defer q.mu.Unlock(); return q.parked })
	q.Discard()
	select {
	case err := <-got:
		if !errors.Is(err, io.EOF) {
			t.Fatalf("next: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the reader was not woken")
	}
}

func TestSubscriptionIDs(t *testing.T) {
	b := newBroker(t, Options{})
	s := newStreamOf(t, b, testKey)
	other := newStreamOf(t, b, Key{"t1", "default", "other"})
	ids := []uint64{
		subscribe(t, s, SubscribeOptions{}).ID(),
		subscribe(t, s, SubscribeOptions{ID: 77, HasID: true}).ID(),
		subscribe(t, other, SubscribeOptions{}).ID(),
		subscribe(t, s, SubscribeOptions{ID: 0, HasID: true}).ID(),
	}
	if !slices.Equal(ids, []uint64{1, 77, 2, 0}) {
		t.Fatalf("ids %v", ids)
	}
}

func TestSubscriptionLimit(t *testing.T) {
	b := newBroker(t, Options{MaxSubscriptionsPerConn: 2})
	s := newStreamOf(t, b, testKey)
	a := b.NewAccount()
	first := subscribe(t, s, SubscribeOptions{Account: a})
	subscribe(t, s, SubscribeOptions{Account: a})
	if _, err := s.Subscribe(SubscribeOptions{Account: a, Start: start(9)}); err != ErrTooManySubscriptions {
		t.Fatalf("third subscription: %v", err)
	}
	first.Discard()
	if _, err := s.Subscribe(SubscribeOptions{Account: a, Start: start(9)}); err == nil || a.Subscriptions() != 1 {
		t.Fatalf("refused cursor: %v, %d open", err, a.Subscriptions())
	}
	subscribe(t, s, SubscribeOptions{Account: a})
	if n := a.Subscriptions(); n != 2 {
		t.Fatalf("%d open", n)
	}
	if got := b.Stats().Events; got[SubscribeLimit] != 1 || got[SubscribeInFuture] != 1 || got[SubscribeOK] != 3 {
		t.Fatalf("events %v", got)
	}
}

// A single frame larger than the whole queue is delivered to a reader that
// keeps up, under every policy.
func TestFrameLargerThanQueue(t *testing.T) {
	for _, p := range []Policy{PolicyDropNew, PolicyBlock, PolicyDropOld} {
		t.Run(p.String(), func(t *testing.T) {
			b := newBroker(t, Options{SubQueueBytes: 1 << 10, RingBytes: 1 << 10, ConnInflightBytes: 1 << 10, InflightBytes: 1 << 10})
			s := newStreamOf(t, b, testKey)
			q := subscribe(t, s, SubscribeOptions{Policy: policy(p)})
			defer q.Discard()
			for i := range uint64(3) {
				big := numbered(t, i, 1, 1<<20)
				c := newCompletions()
				err := b.Submit(t.Context(), Publication{Stream: s, Batch: big, Account: b.NewAccount(), Completer: c}, WaitNone)
				if err != nil {
					t.Fatal(err)
				}
				if got := numbersOf(t, next(t, q, 1)...); !slices.Equal(got, []uint64{i}) {
					t.Fatalf("got %v", got)
				}
				c.wait(t, 1)
			}
			late := subscribe(t, s, SubscribeOptions{Start: start(2)})
			defer late.Discard()
			if got := numbersOf(t, late.Replay()...); !slices.Equal(got, []uint64{2}) {
				t.Fatalf("replay %v", got)
			}
		})
	}
}
