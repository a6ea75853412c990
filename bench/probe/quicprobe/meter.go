package quicprobe

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// sampleEvery is the time between two looks at a meter.
	sampleEvery = 10 * time.Millisecond
	// tellEvery is the number of looks after which progress is told.
	tellEvery = 10
	// patience is how long nothing may move before a run has failed. A lost
	// peer is noticed by the idle timeout of the connection as well.
	patience = 30 * time.Second
)

// meter counts what has arrived. add may be called concurrently.
type meter struct {
	count atomic.Int64
	begun time.Time // set by the first add
	first chan struct{}
}

func newMeter() *meter { return &meter{first: make(chan struct{})} }

// add counts n more, n > 0.
func (m *meter) add(n int) {
	if m.count.Add(int64(n)) == int64(n) {
		m.begun = time.Now()
		close(m.first)
	}
}

// elapsed is the time since the first add, which must have been.
func (m *meter) elapsed() time.Duration {
	<-m.first
	return time.Since(m.begun)
}

// watcher looks at a meter until it is stopped.
type watcher struct {
	m        *meter
	patience time.Duration
	tell     func(int64) // may be nil

	quit chan struct{}
	gap  chan time.Duration
}

// watch starts to look. When nothing moves for as long as patience, it gives up
// with an error.
func watch(m *meter, patience time.Duration, tell func(int64), giveUp context.CancelCauseFunc) *watcher {
	w := &watcher{m: m, patience: patience, tell: tell, quit: make(chan struct{}), gap: make(chan time.Duration, 1)}
	go w.run(giveUp)
	return w
}

func (w *watcher) run(giveUp context.CancelCauseFunc) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	var s stalls
	s.begin(time.Now())
	for n := 1; ; n++ {
		select {
		case <-w.quit:
			s.look(time.Now(), w.m.count.Load())
			w.gap <- s.longest
			return
		case <-tick.C:
		}
		count := w.m.count.Load()
		if s.look(time.Now(), count) >= w.patience {
			giveUp(fmt.Errorf("nothing has moved for %v, after %d", w.patience, count))
		}
		if w.tell != nil && n%tellEvery == 0 {
			w.tell(count)
		}
	}
}

// stop ends the watcher and returns the longest time that nothing moved.
func (w *watcher) stop() time.Duration {
	close(w.quit)
	return <-w.gap
}

// stalls follows a count over time. The time before it leaves 0 is no stall.
type stalls struct {
	moved   time.Time // when the count was last seen to have changed
	count   int64
	longest time.Duration
}

func (s *stalls) begin(now time.Time) { s.moved = now }

// look takes in the count at the time now and returns for how long it has been
// the same.
func (s *stalls) look(now time.Time, count int64) time.Duration {
	gap := now.Sub(s.moved)
	if count != s.count {
		s.moved, s.count = now, count
		return 0
	}
	if count > 0 {
		s.longest = max(s.longest, gap)
	}
	return gap
}
