package broker

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// BenchmarkFanout measures publish -> number, ring -> fan-out -> queue -> drain
// without sockets. One operation is one message: a prebuilt frame is submitted
// for every `batch` operations, and every subscriber drains its queue. Frames
// are shared, not copied: MB/s says what subscribers were handed references to.
func BenchmarkFanout(b *testing.B) {
	for _, size := range []int{256, 1024, 4096} {
		for _, batch := range []int{1, 64} {
			for _, fanout := range []int{1, 10, 100} {
				b.Run(fmt.Sprintf("payload=%d/batch=%d/fanout=%d", size, batch, fanout), func(b *testing.B) {
					benchmarkFanout(b, size, batch, fanout)
				})
			}
		}
	}
}

func benchmarkFanout(b *testing.B, size, batch, fanout int) {
	br := New(Options{SubPolicy: PolicyBlock, SubQueueBatches: 1024, WorkerQueueDepth: 1024})
	s := newStreamOf(b, br, testKey)
	var readers sync.WaitGroup
	for range fanout {
		sub := subscribe(b, s, SubscribeOptions{})
		readers.Go(func() {
			dst := make([]Delivery, 0, 256)
			for {
				if _, err := sub.Next(context.Background(), dst, 0); err != nil {
					return
				}
			}
		})
	}
	account := br.NewAccount()
	frames := make([]Batch, 64)
	for i := range frames {
		frames[i] = numbered(b, 0, batch, size)
	}
	p := Publication{Stream: s, Account: account}
	submit := func(i int) {
		p.Batch = frames[i%len(frames)]
		if err := br.Submit(context.Background(), p, WaitForever); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 8192 { // until the queues have grown to their bounds
		submit(i)
	}
	eventually(b, "the warm-up is drained", func() bool {
		l := s.Ledger()
		return l.IngressQueued.Batches == 0 && l.FanoutQueued.Batches == 0
	})
	warm := s.Ledger().Counts
	b.ReportAllocs()
	b.ResetTimer()
	for sent, i := 0, 0; sent < b.N; sent, i = sent+batch, i+1 {
		submit(i)
	}
	if err := br.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
	readers.Wait()
	b.StopTimer()
	counts := s.Ledger().Counts
	delivered := counts[Delivered].Minus(warm[Delivered])
	seconds := b.Elapsed().Seconds()
	b.ReportMetric(float64(counts[Published].Minus(warm[Published]).Events)/seconds, "msgs/s")
	b.ReportMetric(float64(delivered.Events)/seconds, "delivered-msgs/s")
	b.ReportMetric(float64(delivered.Bytes)/1e6/seconds, "MB/s")
}

// BenchmarkWakeupRecord shows what a stage pays per wakeup for its histogram.
func BenchmarkWakeupRecord(b *testing.B) {
	for _, on := range []bool{false, true} {
		b.Run(fmt.Sprintf("on=%v", on), func(b *testing.B) {
			br := New(Options{Workers: 1})
			defer br.Close(context.Background())
			br.RecordWakeups(on)
			h := br.Stage("bench", "Items of a benchmark.")
			for i := 0; b.Loop(); i++ {
				h.Record(i & 63)
			}
		})
	}
}

// BenchmarkLedger measures a ledger, and so how long it keeps a stream waiting.
func BenchmarkLedger(b *testing.B) {
	for _, fanout := range []int{1, 100} {
		b.Run(fmt.Sprintf("fanout=%d", fanout), func(b *testing.B) {
			br := New(Options{Workers: 1})
			defer br.Close(context.Background())
			s := newStreamOf(b, br, testKey)
			for range fanout {
				defer subscribe(b, s, SubscribeOptions{}).Discard()
			}
			for b.Loop() {
				s.Ledger()
			}
		})
	}
}
