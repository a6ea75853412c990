package quicprobe

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestStallsAreTimesWithoutProgress(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	for _, c := range []struct {
		name  string
		looks []int64 // counts seen every 10 ms
		want  int     // ms
	}{
		{"nothing ever", []int64{0, 0, 0, 0}, 0},
		{"steady", []int64{1, 2, 3, 4}, 0},
		{"a late start is no stall", []int64{0, 0, 0, 0, 5, 6}, 0},
		{"one gap", []int64{1, 1, 1, 1, 2, 3}, 30},
		{"the longest of two", []int64{1, 1, 2, 2, 2, 3, 3}, 20},
		{"up to the end", []int64{1, 2, 2, 2, 2}, 30},
	} {
		var s stalls
		s.begin(start)
		for i, n := range c.looks {
			s.look(at(10*(i+1)), n)
		}
		if s.longest != time.Duration(c.want)*time.Millisecond {
			t.Errorf("%s: %v, want %d ms", c.name, s.longest, c.want)
		}
	}
}

func TestWatcherMeasuresAndTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []int64
		m := newMeter()
		w := watch(m, time.Minute, func(n int64) { told = append(told, n) }, func(err error) { t.Errorf("gave up: %v", err) })
		time.Sleep(5 * time.Second) // before the first bytes
		m.add(10)
		time.Sleep(305 * time.Millisecond)
		m.add(5)
		time.Sleep(95 * time.Millisecond)
		if gap := w.stop(); gap < 290*time.Millisecond || gap > 310*time.Millisecond {
			t.Errorf("longest stall %v, want 300 ms", gap)
		}
		if len(told) != 54 || told[0] != 0 || told[53] != 15 {
			t.Errorf("told %d times: %v", len(told), told)
		}
		if e := m.elapsed(); e != 400*time.Millisecond {
			t.Errorf("elapsed %v, want 400 ms since the first bytes", e)
		}
	})
}

func TestWatcherGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		m := newMeter()
		w := watch(m, 30*time.Second, nil, cancel)
		defer w.stop()
		m.add(77)
		time.Sleep(29 * time.Second)
		if ctx.Err() != nil {
			t.Error("gave up too early")
		}
		<-ctx.Done()
		if err := context.Cause(ctx); !strings.Contains(err.Error(), "nothing has moved for 30s, after 77") {
			t.Errorf("gave up with %v", err)
		}
	})
}
