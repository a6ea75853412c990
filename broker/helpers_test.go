package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"felix/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait in the tests; only a defect uses it up.
const patience = 60 * time.Second

var testKey = Key{"t1", "default", "orders"}

type tester interface {
	Helper()
	Fatalf(string, ...any)
}

func newBroker(t testing.TB, o Options) *Broker {
	t.Helper()
	b := New(o)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := b.Close(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

func newStreamOf(t tester, b *Broker, k Key) *Stream {
	t.Helper()
	if err := b.CreateStream(k, StreamOptions{}); err != nil {
		t.Fatalf("create %v: %v", k, err)
	}
	s, err := b.Stream(k)
	if err != nil {
		t.Fatalf("stream %v: %v", k, err)
	}
	return s
}

// batchOf encodes payloads as a publication's batch.
func batchOf(t tester, payloads ...[]byte) Batch {
	t.Helper()
	frame, err := wire.AppendSharedEventBatch(nil, nil, payloads)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	n := 0
	for _, p := range payloads {
		n += len(p)
	}
	return Batch{Frame: frame, Count: len(payloads), Bytes: n}
}

// numbered encodes count events with the numbers from first on, padded to size.
func numbered(t tester, first uint64, count, size int) Batch {
	t.Helper()
	payloads := make([][]byte, count)
	for i := range payloads {
		payloads[i] = make([]byte, max(size, 8))
		binary.BigEndian.PutUint64(payloads[i], first+uint64(i))
	}
	return batchOf(t, payloads...)
}

// eventsOf decodes the events of a delivery that its subscriber is to get, and
// checks that the frame holds what the delivery says.
func eventsOf(t tester, d Delivery) [][]byte {
	t.Helper()
	h, err := wire.ParseHeader(d.Frame, len(d.Frame))
	if err != nil {
		t.Fatalf("frame header: %v", err)
	}
	ev, err := wire.ParseEventBatch(h.Flags, d.Frame[wire.HeaderLen:])
	if err != nil {
		t.Fatalf("frame: %v", err)
	}
	if ev.Items.Len() != d.Count || ev.Items.Bytes() != d.Bytes {
		t.Fatalf("delivery says %d events, %d bytes; frame has %d, %d", d.Count, d.Bytes, ev.Items.Len(), ev.Items.Bytes())
	}
	var out [][]byte
	for p := range ev.Items.All() {
		out = append(out, p)
	}
	return out[d.Skip:]
}

// numbersOf returns the numbers that numbered put in.
func numbersOf(t tester, ds ...Delivery) []uint64 {
	t.Helper()
	var out []uint64
	for _, d := range ds {
		for _, p := range eventsOf(t, d) {
			out = append(out, binary.BigEndian.Uint64(p))
		}
	}
	return out
}

// completions is a Completer that remembers every call.
type completions struct {
	mu    sync.Mutex
	calls []completion
	added chan struct{}
}

type completion struct {
	token uint64
	err   error
}

func newCompletions() *completions { return &completions{added: make(chan struct{}, 1)} }

func (c *completions) Complete(token uint64, err error) {
	c.mu.Lock()
	c.calls = append(c.calls, completion{token, err})
	c.mu.Unlock()
	select {
	case c.added <- struct{}{}:
	default:
	}
}

func (c *completions) snapshot() []completion {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]completion(nil), c.calls...)
}

// wait returns the calls once there are n of them.
func (c *completions) wait(t tester, n int) []completion {
	t.Helper()
	deadline := time.After(patience)
	for {
		if calls := c.snapshot(); len(calls) >= n {
			return calls
		}
		select {
		case <-c.added:
		case <-deadline:
			t.Fatalf("%d completions, want %d", len(c.snapshot()), n)
		}
	}
}

// publish submits a batch and waits until it is published.
func publish(t tester, b *Broker, s *Stream, batch Batch) {
	t.Helper()
	c := newCompletions()
	err := b.Submit(context.Background(), Publication{Stream: s, Batch: batch, Completer: c}, WaitForever)
	if err != nil {
		t.Fatalf("submit: %v", err)
	}
	if call := c.wait(t, 1)[0]; call.err != nil {
		t.Fatalf("publish: %v", call.err)
	}
}

func subscribe(t tester, s *Stream, o SubscribeOptions) *Subscription {
	t.Helper()
	sub, err := s.Subscribe(o)
	if err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	return sub
}

// next takes what is queued, up to limit frames.
func next(t tester, sub *Subscription, limit int) []Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ds, err := sub.Next(ctx, make([]Delivery, 0, limit), 0)
	if err != nil {
		t.Fatalf("next: %v", err)
	}
	return ds
}

// rest takes everything until io.EOF.
func rest(t tester, sub *Subscription) []Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var all []Delivery
	for {
		ds, err := sub.Next(ctx, nil, 0)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("next: %v", err)
		}
		all = append(all, ds...)
	}
}

// eventually polls cond, which has no event to wait for.
func eventually(t tester, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// checkLedger fails unless every stage of the ledger balances.
func checkLedger(t tester, l Ledger) {
	t.Helper()
	for _, st := range l.Stages() {
		if batches, events, bytes := l.Imbalance(st); batches != 0 || events != 0 || bytes != 0 {
			t.Fatalf("%s: %d batches, %d events, %d bytes unaccounted for: %+v", st.Name, batches, events, bytes, l)
		}
	}
}

func seqRange(from, to uint64) []uint64 {
	out := []uint64{}
	for ; from < to; from++ {
		out = append(out, from)
	}
	return out
}

func start(offset uint64) *wire.Start {
	return &wire.Start{Kind: wire.StartOffset, Offset: offset}
}

var earliest = &wire.Start{Kind: wire.StartEarliest}

func policy(p Policy) *Policy { return &p }
