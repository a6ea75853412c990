package e2e

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"felix/client"
	"felix/internal/testkit"
)

// tail is a subscription to a numbered stream that is read in the background.
type tail struct {
	complete bool // the ring has everything that can be missed
	sub      *client.Subscription
	resumed  atomic.Uint64
	received atomic.Uint64
	next     atomic.Uint64 // number after the last event
	skipped  atomic.Uint64
}

// TestSubscriptionSurvivesCuts is field case F22: the connection of two
// subscriptions is cut 50 times while numbered messages are published. The one
// whose ring reaches far enough gets each message once; the other, whose ring is
// small, is told exactly which ones it has missed. Each resumption asks for the
// message after the last one.
func TestSubscriptionSurvivesCuts(t *testing.T) {
	t.Parallel()
	const cuts = 50
	d := testkit.StartDaemon(t, []string{
		"FELIX_EVENT_OFFSETS=all", "FELIX_RING_ENTRIES=1000000", "FELIX_IDLE_TIMEOUT_MS=2000", "FELIX_KEEP_ALIVE_MS=250",
	})
	admin(t, d, http.MethodPost, "/v1/streams", `{"tenant":"t1","namespace":"default","name":"short","ring_entries":20}`)
	publisher := connect(t, clientConfig(t, d))
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
	defer cancel()
	sent := uint64(0)
	send := func() {
		for _, stream := range []string{"long", "short"} {
			if err := publisher.PublishBatch(ctx, stream, [][]byte{numbered(sent, 8), numbered(sent+1, 8)}); err != nil {
				t.Errorf("publish %d: %v", sent, err)
			}
		}
		sent += 2
	}
	for range 5 { // before the start, which must not be asked for again
		send()
	}

	path := newProxy(t, d.Addr)
	cfg := clientConfig(t, d)
	cfg.Addr = path.addr()
	cfg.Transport.IdleTimeout, cfg.Transport.KeepAlive = 300*time.Millisecond, 100*time.Millisecond
	reader := connect(t, cfg)
	long, short := &tail{complete: true}, &tail{}
	var work sync.WaitGroup
	done := make(chan struct{})
	for stream, s := range map[string]*tail{"long": long, "short": short} {
		if err := s.start(ctx, t, reader, stream); err != nil {
			t.Fatal(err)
		}
		work.Go(func() { s.read(ctx, t) })
	}
	testkit.Eventually(t, 30*time.Second, "both subscriptions have begun", func() bool {
		return long.next.Load() == sent && short.next.Load() == sent
	})
	publishing := make(chan struct{})
	go func() {
		defer close(publishing)
		for !isClosed(done) {
			send()
			time.Sleep(5 * time.Millisecond)
		}
	}()
	for i := range cuts {
		before := [2]uint64{long.resumed.Load(), short.resumed.Load()}
		path.cut()
		testkit.Eventually(t, 30*time.Second, fmt.Sprintf("both subscriptions have resumed after cut %d", i), func() bool {
			return t.Failed() || long.resumed.Load() > before[0] && short.resumed.Load() > before[1]
		})
	}
	close(done)
	<-publishing
	for name, s := range map[string]*tail{"long": long, "short": short} {
		testkit.Eventually(t, 30*time.Second, name+" has come to the end", func() bool { return t.Failed() || s.next.Load() == sent })
		if got := s.received.Load() + s.skipped.Load(); got != sent {
			t.Errorf("%s: %d received and %d missed of %d", name, s.received.Load(), s.skipped.Load(), sent)
		}
		if err := s.sub.Close(); err != nil {
			t.Error(err)
		}
	}
	work.Wait()
	t.Logf("%d messages, %d and %d resumptions, the small ring lost %d", sent, long.resumed.Load(), short.resumed.Load(), short.skipped.Load())
	if long.skipped.Load() != 0 {
		t.Errorf("%d messages missed inside the ring's reach", long.skipped.Load())
	}
	if short.skipped.Load() == 0 {
		t.Error("the small ring was never left: this tested nothing")
	}
	checkLedger(t, d, "long")
	checkLedger(t, d, "short")
}

func (s *tail) start(ctx context.Context, t *testing.T, c *client.Client, stream string) (err error) {
	s.sub, err = c.Subscribe(ctx, stream, client.FromEarliest(), client.OnResume(func(r client.Resumption) {
		// What the small ring has lost cannot be asked for.
		if next := s.next.Load(); next > 0 && (r.FromOffset || s.complete) && (!r.FromOffset || r.Offset != next) {
			t.Errorf("%s: resumed with %+v, want offset %d", stream, r, next)
		}
		s.resumed.Add(1)
	}))
	return err
}

// read checks that numbers, offsets and reported gaps agree.
func (s *tail) read(ctx context.Context, t *testing.T) {
	for {
		e, err := s.sub.Next(ctx)
		if err != nil {
			if ctx.Err() != nil || !errors.Is(err, client.ErrClosed) {
				t.Errorf("%s: %v", s.sub.Stream(), err)
			}
			return
		}
		n, next := binary.BigEndian.Uint64(e.Payload), s.next.Load()
		if n != next+e.Skipped || !e.HasOffset || e.Offset != n || e.Resumed {
			t.Errorf("%s: message %d after %d: offset %d (%v), %d skipped, resumed at an unknown place: %v",
				s.sub.Stream(), n, next, e.Offset, e.HasOffset, e.Skipped, e.Resumed)
			return
		}
		s.skipped.Add(e.Skipped)
		s.received.Add(1)
		s.next.Store(n + 1)
	}
}
