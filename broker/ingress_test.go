package broker

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"felix/wire"
)

// stall fills a blocking subscription so that its stream publishes nothing
// more. The publication that did it stays charged.
func stall(t tester, b *Broker, s *Stream, a *Account) *Subscription {
	t.Helper()
	q := subscribe(t, s, SubscribeOptions{Policy: policy(PolicyBlock)})
	n := 0
	for s.stalled.Load() == 0 {
		c := newCompletions()
		p := Publication{Stream: s, Batch: numbered(t, uint64(n), 1, 8), Account: a, Completer: c}
		if err := b.Submit(context.Background(), p, WaitNone); err != nil {
			t.Fatalf("submit: %v", err)
		}
		n++
		eventually(t, "published or stalled", func() bool {
			return len(c.snapshot()) == 1 || s.stalled.Load() > 0
		})
	}
	return q
}

const frameOf8 = wire.HeaderLen + 4 + wire.ItemOverhead + 8

func TestRefusals(t *testing.T) {
	roomy := Options{SubQueueBatches: 1}
	tests := []struct {
		name    string
		opts    Options
		wait    Wait
		text    string
		counter Counter
		is      error
	}{
		{"queue", Options{WorkerQueueDepth: 1}, WaitNone, wire.TextQueueFull, RefusedQueueFull, ErrOverloaded},
		{"connection", Options{ConnInflightBytes: 2*frameOf8 - 1}, WaitNone, wire.TextConnByteBudget, RefusedConnBytes, ErrOverloaded},
		{"process", Options{InflightBytes: 2*frameOf8 - 1}, WaitNone, wire.TextByteBudget, RefusedProcessBytes, ErrOverloaded},
		{"queue, waiting", Options{WorkerQueueDepth: 1}, WaitBounded, wire.TextEnqueueTimeout, RefusedEnqueueTimeout, ErrOverloaded},
		{"connection, waiting", Options{ConnInflightBytes: 2*frameOf8 - 1}, WaitBounded, wire.TextAdmissionTimeout, RefusedAdmissionTimeout, ErrOverloaded},
		{"process, waiting", Options{InflightBytes: 2*frameOf8 - 1}, WaitBounded, wire.TextAdmissionTimeout, RefusedAdmissionTimeout, ErrOverloaded},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.opts.SubQueueBatches = roomy.SubQueueBatches
			tt.opts.QueueWait = time.Millisecond
			b := newBroker(t, tt.opts)
			s := newStreamOf(t, b, testKey)
			a := b.NewAccount()
			q := stall(t, b, s, a)
			before := b.Stats().InflightBytes
			err := b.Submit(t.Context(), Publication{Stream: s, Batch: numbered(t, 9, 1, 8), Account: a}, tt.wait)
			if err == nil || err.Error() != tt.text || !errors.Is(err, tt.is) {
				t.Fatalf("submit: %v, want %q", err, tt.text)
			}
			l := s.Ledger()
			if got := l.Counts[tt.counter]; got != (Tally{1, 1, 8}) {
				t.Fatalf("%s: %+v", tt.counter.Name(), got)
			}
			checkLedger(t, l)
			if waited := l.Counts[Waited].Batches; (waited == 1) != (tt.wait != WaitNone) {
				t.Fatalf("%d waited", waited)
			}
			if a.InflightBytes() != frameOf8 || b.Stats().InflightBytes != before {
				t.Fatalf("a refused publication left %d and %d bytes charged", a.InflightBytes(), b.Stats().InflightBytes)
			}
			q.Discard()
			eventually(t, "all given back", func() bool { return a.InflightBytes() == 0 && b.Stats().InflightBytes == 0 })
			// With room again, the same publication is accepted.
			publish(t, b, s, numbered(t, 9, 1, 8))
		})
	}
}

func TestWaitForeverIsServedInOrder(t *testing.T) {
	b := newBroker(t, Options{WorkerQueueDepth: 1, SubQueueBatches: 1})
	s := newStreamOf(t, b, testKey)
	q := stall(t, b, s, nil)
	first := s.Info().NextSeq
	results := make(chan error)
	for i := range uint64(5) {
		go func() {
			results <- b.Submit(context.Background(), Publication{Stream: s, Batch: numbered(t, first+i, 1, 8)}, WaitForever)
		}()
		eventually(t, "it waits", func() bool { return s.lane.slots.waiting.Load() == int32(i)+1 })
	}
	var got []uint64
	for len(got) < int(first)+5 {
		got = append(got, numbersOf(t, next(t, q, 64)...)...)
	}
	for range 5 {
		if err := <-results; err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(got, seqRange(0, first+5)) {
		t.Fatalf("order %v", got)
	}
	q.Discard()
}

func TestWaitEnds(t *testing.T) {
	tests := []struct {
		name string
		end  func(*Broker, *Account, context.CancelCauseFunc)
		is   error
	}{
		{"context", func(_ *Broker, _ *Account, cancel context.CancelCauseFunc) { cancel(errGone) }, errGone},
		{"account", func(_ *Broker, a *Account, _ context.CancelCauseFunc) { a.Close() }, ErrAdmissionClosed},
		{"stream", func(b *Broker, _ *Account, _ context.CancelCauseFunc) { b.DeleteStream(testKey) }, &StreamGoneError{1}},
		{"broker", func(b *Broker, _ *Account, _ context.CancelCauseFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			b.Close(ctx)
		}, ErrAdmissionClosed},
	}
	resources := map[string]Options{
		"queue":      {WorkerQueueDepth: 1, SubQueueBatches: 1},
		"connection": {ConnInflightBytes: 2*frameOf8 - 1, SubQueueBatches: 1},
		"process":    {InflightBytes: 2*frameOf8 - 1, SubQueueBatches: 1},
	}
	for resource, opts := range resources {
		for _, tt := range tests {
			t.Run(resource+"/"+tt.name, func(t *testing.T) {
				b := newBroker(t, opts)
				s := newStreamOf(t, b, testKey)
				a := b.NewAccount()
				q := stall(t, b, s, a)
				defer q.Discard()
				ctx, cancel := context.WithCancelCause(context.Background())
				defer cancel(nil)
				result := make(chan error)
				go func() {
					result <- b.Submit(ctx, Publication{Stream: s, Batch: numbered(t, 9, 1, 8), Account: a}, WaitForever)
				}()
				eventually(t, "it waits", func() bool {
					return s.lane.slots.waiting.Load()+a.bytes.waiting.Load()+b.inflight.waiting.Load() == 1
				})
				tt.end(b, a, cancel)
				err := <-result
				var gone *StreamGoneError
				if want, ok := tt.is.(*StreamGoneError); ok {
					if !errors.As(err, &gone) || *gone != *want || err.Error() != "stream handle 1 is no longer active" {
						t.Fatalf("submit: %v", err)
					}
				} else if !errors.Is(err, tt.is) {
					t.Fatalf("submit: %v, want %v", err, tt.is)
				}
				if tt.name != "context" && !errors.Is(err, net.ErrClosed) {
					t.Fatalf("%v does not match net.ErrClosed", err)
				}
				checkLedger(t, b.Stats().Total)
				q.Discard()
				eventually(t, "all given back", func() bool {
					return a.InflightBytes() == 0 && b.Stats().InflightBytes == 0 && s.lane.slots.used.Load() == 0
				})
			})
		}
	}
}

var errGone = errors.New("publisher gone")

// The bounded wait is one wait for the whole admission, whatever it is made of.
func TestBoundedWaitIsTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{WorkerQueueDepth: 1, SubQueueBatches: 1, ConnInflightBytes: 2*frameOf8 - 1, QueueWait: 2 * time.Second})
		s := newStreamOf(t, b, testKey)
		a := b.NewAccount()
		// The account's bytes are held by another stream for 1.5 s, the place
		// in the queue for ever.
		other := newStreamOf(t, b, Key{"t1", "default", "other"})
		held := stall(t, b, other, a)
		q := stall(t, b, s, nil)
		begin := time.Now()
		go func() {
			time.Sleep(1500 * time.Millisecond)
			held.Discard()
		}()
		err := b.Submit(context.Background(), Publication{Stream: s, Batch: numbered(t, 9, 1, 8), Account: a}, WaitBounded)
		if err != ErrEnqueueTimeout || time.Since(begin) != 2*time.Second {
			t.Fatalf("%v after %v", err, time.Since(begin))
		}
		q.Discard()
		if err := b.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestInvalidFrames(t *testing.T) {
	b := newBroker(t, Options{})
	s := newStreamOf(t, b, testKey)
	good := numbered(t, 0, 2, 8)
	edit := func(change func(*Batch)) Batch {
		bad := good
		bad.Frame = slices.Clone(good.Frame)
		change(&bad)
		return bad
	}
	bad := map[string]Batch{
		"empty":        {},
		"short":        edit(func(b *Batch) { b.Frame = b.Frame[:wire.HeaderLen+2] }),
		"cut":          edit(func(b *Batch) { b.Frame = b.Frame[:len(b.Frame)-1] }),
		"magic":        edit(func(b *Batch) { b.Frame[0] = 0 }),
		"other layout": edit(func(b *Batch) { wire.PutHeader(b.Frame, wire.FlagEventBatch, len(b.Frame)-wire.HeaderLen) }),
		"count":        edit(func(b *Batch) { b.Count = 3 }),
		"bytes":        edit(func(b *Batch) { b.Bytes++ }),
		"negative":     edit(func(b *Batch) { b.Count, b.Bytes = -1, 24 }),
	}
	for name, batch := range bad {
		var invalid *InvalidFrameError
		err := b.Submit(t.Context(), Publication{Stream: s, Batch: batch}, WaitNone)
		if !errors.As(err, &invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	l := s.Ledger()
	if l.Counts[RefusedInvalid].Batches != uint64(len(bad)) || l.Counts[Accepted].Batches != 0 {
		t.Fatalf("counts: %+v", l.Counts)
	}
	checkLedger(t, l)
}

// A frame whose inner lengths lie is found out when it has to be split.
func TestSplitRefusesLyingItems(t *testing.T) {
	b := newBroker(t, Options{EventBatchMaxEvents: 1})
	s := newStreamOf(t, b, testKey)
	batch := numbered(t, 0, 2, 8)
	batch.Frame[wire.HeaderLen+4] = 0x7f
	var invalid *InvalidFrameError
	if err := b.Submit(t.Context(), Publication{Stream: s, Batch: batch}, WaitNone); !errors.As(err, &invalid) {
		t.Fatalf("submit: %v", err)
	}
	if n := b.Stats().InflightBytes; n != 0 {
		t.Fatalf("%d bytes charged", n)
	}
}

func TestEmptyBatchCompletes(t *testing.T) {
	b := newBroker(t, Options{})
	s := newStreamOf(t, b, testKey)
	q := subscribe(t, s, SubscribeOptions{})
	publish(t, b, s, batchOf(t))
	publish(t, b, s, batchOf(t, nil, nil))
	q.Close()
	ds := rest(t, q)
	if len(ds) != 1 || ds[0].Count != 2 || ds[0].FirstSeq != 0 {
		t.Fatalf("deliveries %+v", ds)
	}
	if c := s.Ledger().Counts; c[Published] != (Tally{2, 2, 0}) || c[Offered] != (Tally{1, 2, 0}) {
		t.Fatalf("counts %+v", c)
	}
}

// A batch within the limits is shared as it is; a larger one is cut once, and
// all subscribers share the pieces.
func TestSplitOnceForAll(t *testing.T) {
	b := newBroker(t, Options{EventBatchMaxEvents: 4, EventBatchMaxBytes: 4096})
	s := newStreamOf(t, b, testKey)
	subs := []*Subscription{subscribe(t, s, SubscribeOptions{}), subscribe(t, s, SubscribeOptions{})}
	whole := numbered(t, 0, 4, 1000)
	publish(t, b, s, whole)
	publish(t, b, s, numbered(t, 4, 10, 8))
	publish(t, b, s, numbered(t, 14, 3, 2000))
	publish(t, b, s, numbered(t, 17, 2, 5000))
	var frames [2][]Delivery
	for i, q := range subs {
		q.Close()
		frames[i] = rest(t, q)
	}
	counts := []int{4, 4, 4, 2, 2, 1, 1, 1}
	for i, d := range frames[0] {
		if d.Count != counts[i] {
			t.Fatalf("frame %d has %d events, want %d", i, d.Count, counts[i])
		}
		if &d.Frame[0] != &frames[1][i].Frame[0] {
			t.Fatalf("frame %d is not shared", i)
		}
	}
	if &frames[0][0].Frame[0] != &whole.Frame[0] {
		t.Fatal("a batch within the limits was copied")
	}
	if got := numbersOf(t, frames[0]...); !slices.Equal(got, seqRange(0, 19)) {
		t.Fatalf("events %v", got)
	}
	if got := s.Ledger().Counts[Split]; got.Batches != 3 || got.Events != 15 {
		t.Fatalf("split %+v", got)
	}
}

// A small frame of a quiet stream must not keep the buffer alive that it was
// read into.
func TestSmallFramesAreDetached(t *testing.T) {
	b := newBroker(t, Options{})
	s := newStreamOf(t, b, testKey)
	small, large := numbered(t, 0, 1, 100), numbered(t, 1, 1, 2*smallRun)
	publish(t, b, s, small)
	publish(t, b, s, large)
	q := subscribe(t, s, SubscribeOptions{Start: earliest})
	defer q.Discard()
	ds := q.Replay()
	if &ds[0].Frame[0] == &small.Frame[0] || &ds[1].Frame[0] != &large.Frame[0] {
		t.Fatal("small frame shared or large frame copied")
	}
	if got := numbersOf(t, ds...); !slices.Equal(got, []uint64{0, 1}) {
		t.Fatalf("events %v", got)
	}
	if cap(ds[0].Frame) != len(ds[0].Frame) {
		t.Fatal("a frame can be appended to over its neighbour")
	}
}

// Nobody overtakes those who wait, and one who gives up lets the next one in.
func TestBudgetIsFair(t *testing.T) {
	b := budget{limit: 10}
	if !b.tryAcquire(5) {
		t.Fatal("no room in an empty budget")
	}
	giveUp := make(chan struct{})
	results := make(chan waitOutcome, 2)
	wait := func(n int64, stop <-chan struct{}, place int32) {
		go func() {
			results <- b.acquire(n, &limits{ctx: context.Background(), closed: [3]<-chan struct{}{stop}})
		}()
		eventually(t, "it waits", func() bool { return b.waiting.Load() == place })
	}
	wait(8, giveUp, 1)
	if b.tryAcquire(1) {
		t.Fatal("overtaken")
	}
	wait(3, nil, 2)
	close(giveUp)
	if first, second := <-results, <-results; first+second != waitClosed+waitGranted {
		t.Fatalf("outcomes %d, %d", first, second)
	}
	if used := b.used.Load(); used != 8 {
		t.Fatalf("%d in use", used)
	}
}

// Those who gave up leave nothing behind, also while somebody in front of them
// waits on: a publisher that waits for ever behind a blocked subscriber must not
// let every timed-out publish pile up.
func TestBudgetForgetsThoseWhoGaveUp(t *testing.T) {
	b := budget{limit: 1}
	if !b.tryAcquire(1) {
		t.Fatal("no room in an empty budget")
	}
	first := make(chan waitOutcome, 1)
	go func() { first <- b.acquire(1, &limits{ctx: context.Background()}) }()
	eventually(t, "it waits", func() bool { return b.waiting.Load() == 1 })
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for range 100 {
		if out := b.acquire(1, &limits{ctx: cancelled}); out != waitCancelled {
			t.Fatalf("outcome %d", out)
		}
	}
	if n := b.waiters.Len(); n != 1 {
		t.Errorf("%d in line, 1 waits", n)
	}
	b.release(1)
	if out := <-first; out != waitGranted {
		t.Errorf("outcome %d", out)
	}
}

// A budget never lets more out than its limit, except for one oversized user
// alone, and forgets nobody who waits.
func TestBudgetUnderContention(t *testing.T) {
	b := budget{limit: 100}
	var users sync.WaitGroup
	for u := range 8 {
		users.Go(func() {
			for i := range 500 {
				n := int64(1 + (u*37+i*13)%150)
				if !b.tryAcquire(n) {
					l := limits{ctx: context.Background()}
					if i%7 == 0 {
						l.bounded = time.Microsecond
					}
					out := b.acquire(n, &l)
					l.stop()
					if out == waitTimedOut {
						continue
					}
				}
				if used := b.used.Load(); used > b.limit && used != n {
					t.Errorf("%d of %d in use", used, b.limit)
				}
				b.release(n)
			}
		})
	}
	users.Wait()
	if b.used.Load() != 0 || b.waiting.Load() != 0 || b.waiters.Len() != 0 {
		t.Fatalf("left over: %d used, %d waiting, %d in line", b.used.Load(), b.waiting.Load(), b.waiters.Len())
	}
}
