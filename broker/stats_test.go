package broker

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A ledger of known traffic, figure by figure.
func TestLedgerFigures(t *testing.T) {
	b := newBroker(t, Options{SubQueueBatches: 2, EventBatchMaxEvents: 4})
	s := newStreamOf(t, b, testKey)
	reader := subscribe(t, s, SubscribeOptions{})
	stuck := subscribe(t, s, SubscribeOptions{})
	stuckOld := subscribe(t, s, SubscribeOptions{Policy: policy(PolicyDropOld)})
	publish(t, b, s, numbered(t, 0, 4, 8)) // one frame
	next(t, reader, 9)
	publish(t, b, s, numbered(t, 4, 6, 8)) // two frames: 4 and 2 events
	next(t, reader, 9)
	l := s.Ledger()
	checkLedger(t, l)
	want := map[Counter]Tally{
		Submitted: {2, 10, 80}, Accepted: {2, 10, 80}, Published: {2, 10, 80}, Split: {1, 6, 48},
		Offered: {9, 30, 240}, Delivered: {3, 10, 80},
		DroppedNew: {1, 2, 16}, // the last frame, at stuck
		DroppedOld: {1, 4, 32}, // the first frame, at stuckOld
	}
	for c := range Counters() {
		if l.Counts[c] != want[c] {
			t.Errorf("%s: %+v, want %+v", c.Name(), l.Counts[c], want[c])
		}
	}
	if l.FanoutQueued != (Tally{4, 14, 112}) {
		t.Errorf("queued %+v", l.FanoutQueued)
	}
	if got := len(s.Subscriptions()); got != 3 {
		t.Errorf("%d subscriptions", got)
	}
	stuck.Discard()
	stuckOld.Close()
	l = s.Ledger()
	checkLedger(t, l)
	if l.Counts[DroppedClosed] != (Tally{2, 8, 64}) || l.FanoutQueued != (Tally{2, 6, 48}) {
		t.Errorf("after the end: dropped %+v, queued %+v", l.Counts[DroppedClosed], l.FanoutQueued)
	}
	if total := b.Stats().Total; total.Counts != l.Counts || total.FanoutQueued != l.FanoutQueued {
		t.Errorf("total %+v, want %+v", total, l)
	}
	if all := b.Ledgers(); len(all) != 1 || all[0] != l {
		t.Errorf("ledgers %+v, want %+v", all, l)
	}
}

// An unbalanced ledger must show.
func TestImbalanceShows(t *testing.T) {
	var l Ledger
	l.Counts[Accepted] = Tally{3, 30, 300}
	l.Counts[Published] = Tally{1, 10, 100}
	l.Counts[AbandonedClosed] = Tally{1, 10, 100}
	st := l.Stages()[1]
	if b, e, by := l.Imbalance(st); b != 1 || e != 10 || by != 100 {
		t.Fatalf("imbalance %d, %d, %d", b, e, by)
	}
	l.IngressQueued = Tally{1, 10, 100}
	if b, e, by := l.Imbalance(l.Stages()[1]); b != 0 || e != 0 || by != 0 {
		t.Fatalf("imbalance %d, %d, %d", b, e, by)
	}
}

// Every counter has a unique name and a sentence, and each one of the path is in
// some stage of the ledger.
func TestCountersAreDeclared(t *testing.T) {
	name := regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	seen := map[string]bool{}
	check := func(n, help string) {
		if !name.MatchString(n) || seen[n] {
			t.Errorf("bad or repeated name %q", n)
		}
		seen[n] = true
		if !strings.HasSuffix(help, ".") || len(help) < 15 {
			t.Errorf("%s: %q is no sentence", n, help)
		}
	}
	inLedger := map[Counter]bool{}
	var l Ledger
	for _, st := range l.Stages() {
		inLedger[st.In], inLedger[st.Out] = true, true
		for _, c := range st.Dropped {
			inLedger[c] = true
		}
	}
	n := 0
	for c := range Counters() {
		check(c.Name(), c.Help())
		if inLedger[c] != (c <= Delivered) {
			t.Errorf("%s: in the ledger: %v", c.Name(), inLedger[c])
		}
		n++
	}
	for e := range Events() {
		check(e.Name(), e.Help())
		n++
	}
	if n != int(numCounters)+int(numEvents) {
		t.Errorf("%d counters listed", n)
	}
}

func TestWakeupHistogram(t *testing.T) {
	b := newBroker(t, Options{})
	h := b.Stage("test", "Items of a test.")
	if b.Stage("test", "") != h {
		t.Fatal("a second histogram of the same stage")
	}
	h.Record(5)
	b.RecordWakeups(true)
	for _, n := range []int{0, 1, 2, 3, 4, 5, 1 << 30} {
		h.Record(n)
	}
	b.RecordWakeups(false)
	h.Record(5)
	for _, st := range b.Stats().Wakeups {
		if st.Stage != "test" {
			continue
		}
		want := [wakeupBuckets]uint64{1, 1, 2, 1}
		want[wakeupBuckets-1] = 1
		if st.Buckets != want || st.Wakeups != 6 || st.Items != 15+1<<30 || st.UpperBound(3) != 8 {
			t.Fatalf("histogram %+v", st)
		}
		return
	}
	t.Fatal("stage not listed")
}

// The worker handles everything that waits before it parks, and says so.
func TestIngressDrainsPerWakeup(t *testing.T) {
	b := newBroker(t, Options{Workers: 1, SubQueueBatches: 1})
	b.RecordWakeups(true)
	s := newStreamOf(t, b, testKey)
	q := stall(t, b, s, nil)
	before := wakeupsOf(t, b, "ingress")
	const waiting = 100
	c := newCompletions()
	for i := range uint64(waiting) {
		if err := b.Submit(t.Context(), Publication{Stream: s, Batch: numbered(t, i, 1, 8), Completer: c}, WaitNone); err != nil {
			t.Fatal(err)
		}
	}
	q.Discard()
	c.wait(t, waiting)
	eventually(t, "the worker parks", func() bool { return wakeupsOf(t, b, "ingress").Items == before.Items+waiting })
	if n := wakeupsOf(t, b, "ingress").Wakeups - before.Wakeups; n != 1 {
		t.Fatalf("%d publications took %d wakeups", waiting, n)
	}
}

func wakeupsOf(t *testing.T, b *Broker, stage string) WakeupStats {
	t.Helper()
	for _, st := range b.Wakeups() {
		if st.Stage == stage {
			return st
		}
	}
	t.Fatalf("no stage %q", stage)
	return WakeupStats{}
}

// The path from Submit to Next allocates nothing once its queues have grown.
func TestPathDoesNotAllocate(t *testing.T) {
	for name, size := range map[string]int{"large frame": 4 << 10, "small frame": 64} {
		t.Run(name, func(t *testing.T) {
			b := newBroker(t, Options{RingEntries: 16})
			s := newStreamOf(t, b, testKey)
			subs := []*Subscription{subscribe(t, s, SubscribeOptions{}), subscribe(t, s, SubscribeOptions{})}
			done := make(chan struct{}, 1)
			p := Publication{Stream: s, Batch: numbered(t, 0, 1, size), Account: b.NewAccount(), Completer: doneCompleter(done)}
			dst := make([]Delivery, 0, 16)
			ctx := context.Background()
			cycle := func() {
				for range 8 {
					if err := b.Submit(ctx, p, WaitForever); err != nil {
						t.Fatal(err)
					}
					<-done
				}
				for _, q := range subs {
					if ds, err := q.Next(ctx, dst, 0); err != nil || len(ds) != 8 {
						t.Fatalf("next: %d frames, %v", len(ds), err)
					}
				}
			}
			for range 50 {
				cycle()
			}
			// Copying small frames takes a 64 KiB chunk for some 600 of them.
			if n := testing.AllocsPerRun(500, cycle); n != 0 {
				t.Fatalf("%v allocations for 8 publications", n)
			}
		})
	}
}

type doneCompleter chan struct{}

func (d doneCompleter) Complete(uint64, error) { d <- struct{}{} }

func TestOptionsDefaults(t *testing.T) {
	if got := (Options{}).withDefaults(); got != DefaultOptions() {
		t.Fatalf("zero options: %+v", got)
	}
	set := Options{
		Workers: 1, WorkerQueueDepth: 2, InflightBytes: 3, ConnInflightBytes: 4, QueueWait: 5, CommitWait: 6,
		RingEntries: -7, RingBytes: 8, SubQueueBatches: 9, SubQueueBytes: 10, SubPolicy: PolicyBlock,
		MaxSubscriptionsPerConn: 11, EventBatchMaxEvents: 12, EventBatchMaxBytes: 13, AutoCreate: true,
		MaxStreams: 14, MaxCaches: 15, MaxNameBytes: 17, CacheMaxBytes: 16,
	}
	if got := set.withDefaults(); got != set {
		t.Fatalf("set options were changed: %+v", got)
	}
	if d := DefaultOptions(); d.QueueWait != 2*time.Second || d.SubPolicy != PolicyDropNew {
		t.Fatalf("defaults %+v", d)
	}
}

func TestPolicyNames(t *testing.T) {
	for _, p := range []Policy{PolicyDropNew, PolicyBlock, PolicyDropOld} {
		if got, err := ParsePolicy(p.String()); err != nil || got != p {
			t.Errorf("%v: %v, %v", p, got, err)
		}
	}
	if _, err := ParsePolicy("drop"); err == nil {
		t.Error("unknown policy accepted")
	}
}
