package broker

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A subscriber that takes nothing, under each policy: the publisher and the
// other subscriber are unaffected, memory is bounded, and the drops are counted
// for the stuck subscription alone.
func TestStuckSubscriberDropPolicies(t *testing.T) {
	for _, p := range []Policy{PolicyDropNew, PolicyDropOld} {
		t.Run(p.String(), func(t *testing.T) {
			const total, room = 2000, 50
			b := newBroker(t, Options{SubPolicy: p, SubQueueBatches: room})
			s := newStreamOf(t, b, testKey)
			stuck := subscribe(t, s, SubscribeOptions{})
			healthy := subscribe(t, s, SubscribeOptions{})
			var got []uint64
			for i := range uint64(total) {
				publish(t, b, s, numbered(t, i, 1, 8))
				got = append(got, numbersOf(t, next(t, healthy, 4)...)...)
			}
			if !slices.Equal(got, seqRange(0, total)) {
				t.Fatalf("the healthy subscriber got %d events", len(got))
			}
			st := stuck.Stats()
			dropped := st.DroppedNew
			want := seqRange(0, room)
			if p == PolicyDropOld {
				dropped = st.DroppedOld
				want = seqRange(total-room, total)
			}
			if st.Queued.Events != room || dropped.Events != total-room || st.QueuedBytes != room*frameOf8 {
				t.Fatalf("stuck subscriber: %+v", st)
			}
			if h := healthy.Stats(); h.DroppedNew.Events+h.DroppedOld.Events != 0 {
				t.Fatalf("healthy subscriber: %+v", h)
			}
			stuck.Close()
			left := rest(t, stuck)
			if got := numbersOf(t, left...); !slices.Equal(got, want) {
				t.Fatalf("left in the queue: %v, want %v", got, want)
			}
			if left[0].FirstSeq != want[0] {
				t.Fatalf("the gap does not show: first number %d", left[0].FirstSeq)
			}
			healthy.Discard()
			checkLedger(t, s.Ledger())
		})
	}
}

// Under block the stream stands still until the stuck subscriber goes on or goes
// away; other streams of the same worker do not notice.
func TestStuckSubscriberBlocks(t *testing.T) {
	ends := map[string]func(*testing.T, *Broker, *Subscription){
		"reads":   func(t *testing.T, _ *Broker, q *Subscription) { next(t, q, 64) },
		"closes":  func(_ *testing.T, _ *Broker, q *Subscription) { q.Close() },
		"discard": func(_ *testing.T, _ *Broker, q *Subscription) { q.Discard() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			b := newBroker(t, Options{Workers: 1, SubQueueBatches: 1})
			s := newStreamOf(t, b, testKey)
			other := newStreamOf(t, b, Key{"t1", "default", "other"})
			q := stall(t, b, s, nil)
			defer q.Discard()
			c := newCompletions()
			healthy := subscribe(t, s, SubscribeOptions{})
			defer healthy.Discard()
			from := s.Info().NextSeq
			if err := b.Submit(t.Context(), Publication{Stream: s, Batch: numbered(t, from, 1, 8), Completer: c}, WaitNone); err != nil {
				t.Fatal(err)
			}
			for i := range uint64(100) {
				publish(t, b, other, numbered(t, i, 1, 8))
			}
			if n := len(c.snapshot()); n != 0 || s.Info().NextSeq != from {
				t.Fatal("published past a full blocking queue")
			}
			end(t, b, q)
			if got := numbersOf(t, next(t, healthy, 1)...); !slices.Equal(got, []uint64{from}) {
				t.Fatalf("got %v", got)
			}
			if call := c.wait(t, 1)[0]; call.err != nil {
				t.Fatal(call.err)
			}
			if s.Ledger().Counts[Blocked].Batches == 0 {
				t.Fatal("the stall was not counted")
			}
			checkLedger(t, s.Ledger())
		})
	}
}

// Default settings, one reader, tiny publications as fast as they go: nothing is
// lost, whether the reader starts early or late.
func TestDefaultsLoseNothing(t *testing.T) {
	const total = 20000
	for _, late := range []bool{false, true} {
		b := newBroker(t, Options{})
		s := newStreamOf(t, b, testKey)
		q := subscribe(t, s, SubscribeOptions{})
		a := b.NewAccount()
		done := make(chan []uint64)
		read := func() {
			var got []uint64
			for len(got) < total {
				got = append(got, numbersOf(t, next(t, q, 64)...)...)
			}
			done <- got
		}
		if !late {
			go read()
		}
		for i := range uint64(total) {
			if err := b.Submit(t.Context(), Publication{Stream: s, Batch: numbered(t, i, 1, 8), Account: a}, WaitNone); err != nil {
				t.Fatalf("publication %d: %v", i, err)
			}
		}
		if late {
			go read()
		}
		if got := <-done; !slices.Equal(got, seqRange(0, total)) {
			t.Fatalf("late=%v: %d events, not in order", late, len(got))
		}
		q.Discard()
	}
}

// Close publishes what was accepted, completes each publication once, and lets
// readers have everything that is queued.
func TestCloseDrains(t *testing.T) {
	const publishers, each = 4, 500
	b := New(Options{})
	s := newStreamOf(t, b, testKey)
	q := subscribe(t, s, SubscribeOptions{})
	c := newCompletions()
	var accepted atomic.Int64
	var running sync.WaitGroup
	for p := range uint64(publishers) {
		running.Go(func() {
			for i := range uint64(each) {
				token := p<<32 | i
				err := b.Submit(context.Background(), Publication{Stream: s, Batch: numbered(t, token, 1, 8), Completer: c, Token: token}, WaitForever)
				if errors.Is(err, ErrAdmissionClosed) {
					return
				}
				if err != nil {
					t.Errorf("submit: %v", err)
				}
				accepted.Add(1)
			}
		})
	}
	eventually(t, "under way", func() bool { return accepted.Load() > each })
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	calls := len(c.snapshot())
	running.Wait()
	if int64(calls) != accepted.Load() {
		t.Fatalf("%d accepted, %d completed when Close returned", accepted.Load(), calls)
	}
	seen := map[uint64]bool{}
	for _, call := range c.snapshot() {
		if call.err != nil || seen[call.token] {
			t.Fatalf("completed twice or failed: %+v", call)
		}
		seen[call.token] = true
	}
	if got := rest(t, q); len(got) != calls {
		t.Fatalf("%d completed, %d delivered", calls, len(got))
	}
	checkLedger(t, b.Stats().Total)
	afterClose(t, b, s)
}

func afterClose(t *testing.T, b *Broker, s *Stream) {
	t.Helper()
	if err := b.Submit(t.Context(), Publication{Stream: s, Batch: batchOf(t)}, WaitForever); err != ErrAdmissionClosed {
		t.Fatalf("submit: %v", err)
	}
	if _, err := s.Subscribe(SubscribeOptions{}); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("subscribe: %v", err)
	}
	for what, err := range map[string]error{
		"tenant":    b.CreateTenant("t9"),
		"namespace": b.CreateNamespace("t9", "n"),
		"stream":    b.CreateStream(Key{"t9", "n", "s"}, StreamOptions{}),
		"cache":     b.CreateCache(Key{"t9", "n", "c"}),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Fatalf("create %s: %v", what, err)
		}
	}
	// One that was admitted just before the broker closed.
	if _, err := s.enqueue(job{batch: batchOf(t)}, false); err != ErrAdmissionClosed {
		t.Fatalf("enqueue: %v", err)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Fatalf("second close: %v", err)
	}
}

// When the drain time ends first, what is not published fails, once.
func TestCloseGivesUp(t *testing.T) {
	b := New(Options{SubQueueBatches: 1})
	s := newStreamOf(t, b, testKey)
	c := newCompletions()
	q := subscribe(t, s, SubscribeOptions{Policy: policy(PolicyBlock)})
	publish(t, b, s, numbered(t, 0, 1, 8))
	// This one is published and stalls the stream, the ten after it wait.
	if err := b.Submit(t.Context(), Publication{Stream: s, Batch: numbered(t, 1, 1, 8), Completer: c, Token: 99}, WaitNone); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stream stalls", func() bool { return s.stalled.Load() > 0 })
	for i := range uint64(10) {
		if err := b.Submit(t.Context(), Publication{Stream: s, Batch: numbered(t, i, 1, 8), Completer: c, Token: i}, WaitNone); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := b.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("close: %v", err)
	}
	calls := c.wait(t, 11)
	if calls[0] != (completion{99, nil}) {
		t.Fatalf("the published one: %+v", calls[0])
	}
	for i, call := range calls[1:] {
		if call.token != uint64(i) || call.err != ErrQueueClosed {
			t.Fatalf("completion %d: %+v", i, call)
		}
	}
	l := b.Stats().Total
	if l.Counts[AbandonedClosed].Batches != 10 || b.Stats().InflightBytes != 0 {
		t.Fatalf("abandoned %+v, %d bytes charged", l.Counts[AbandonedClosed], b.Stats().InflightBytes)
	}
	checkLedger(t, l)
	if got := len(rest(t, q)); got != 2 {
		t.Fatalf("%d frames left in the queue, want 2", got)
	}
	if n := len(c.snapshot()); n != 11 {
		t.Fatalf("%d completions", n)
	}
}

func TestDeleteStream(t *testing.T) {
	b := newBroker(t, Options{SubQueueBatches: 1})
	s := newStreamOf(t, b, testKey)
	q := stall(t, b, s, nil)
	queued := int(q.Stats().Queued.Batches)
	c := newCompletions()
	for i := range uint64(3) {
		if err := b.Submit(t.Context(), Publication{Stream: s, Batch: numbered(t, i, 1, 8), Completer: c, Token: i}, WaitNone); err != nil {
			t.Fatal(err)
		}
	}
	if !b.DeleteStream(testKey) || b.DeleteStream(testKey) || s.Active() {
		t.Fatal("delete")
	}
	for _, call := range c.wait(t, 3) {
		var gone *StreamGoneError
		if !errors.As(call.err, &gone) || gone.Handle != s.Handle() {
			t.Fatalf("completion %+v", call)
		}
	}
	if _, err := s.Subscribe(SubscribeOptions{}); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("subscribe: %v", err)
	}
	if err := b.Submit(t.Context(), Publication{Stream: s, Batch: batchOf(t)}, WaitNone); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("submit: %v", err)
	}
	if s.Info().RingBytes != 0 {
		t.Fatal("a deleted stream keeps its ring")
	}
	if st := b.Stats(); st.Streams != 0 || st.Total.FanoutQueued.Batches != uint64(queued) {
		t.Fatalf("while the reader drains: %+v", st)
	}
	if got := len(rest(t, q)); got != queued {
		t.Fatalf("%d of %d queued frames delivered", got, queued)
	}
	st := b.Stats()
	if st.Total.Counts[Delivered].Batches != uint64(queued) || st.Total.Counts[AbandonedStreamGone].Batches != 3 {
		t.Fatalf("after the reader drained: %+v", st.Total)
	}
	checkLedger(t, st.Total)
	b.mu.RLock()
	leaving := len(b.leaving)
	b.mu.RUnlock()
	if leaving != 0 {
		t.Fatal("a deleted stream is kept")
	}
	again := newStreamOf(t, b, testKey)
	if again.Handle() == s.Handle() || again.Info().NextSeq != 0 {
		t.Fatalf("stream made again: %+v", again.Info())
	}
}

func TestAccountCloseLetsAcceptedThrough(t *testing.T) {
	b := newBroker(t, Options{SubQueueBatches: 1})
	s := newStreamOf(t, b, testKey)
	a := b.NewAccount()
	q := stall(t, b, s, a)
	c := newCompletions()
	p := Publication{Stream: s, Batch: numbered(t, 0, 1, 8), Account: a, Completer: c}
	if err := b.Submit(t.Context(), p, WaitNone); err != nil {
		t.Fatal(err)
	}
	a.Close()
	a.Close()
	if err := b.Submit(t.Context(), p, WaitNone); err != ErrAdmissionClosed {
		t.Fatalf("submit: %v", err)
	}
	q.Discard()
	if call := c.wait(t, 1)[0]; call.err != nil {
		t.Fatal(call.err)
	}
}

func TestCloseEndsReaders(t *testing.T) {
	b := New(Options{})
	s := newStreamOf(t, b, testKey)
	q := subscribe(t, s, SubscribeOptions{})
	got := make(chan error)
	go func() {
		_, err := q.Next(context.Background(), nil, 0)
		got <- err
	}()
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-got; !errors.Is(err, io.EOF) {
		t.Fatalf("next: %v", err)
	}
}
