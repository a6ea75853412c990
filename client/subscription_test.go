package client

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"felix/transport"
	"felix/wire"
)

// read reads n events.
func read(t *testing.T, s *Subscription, n int) (events []Event) {
	t.Helper()
	for len(events) < n {
		ev, err := s.Next(patient(t))
		if err != nil {
			t.Fatalf("after %d events: %v", len(events), err)
		}
		events = append(events, ev)
	}
	return events
}

func texts(events []Event) (all []string) {
	for _, ev := range events {
		all = append(all, string(ev.Payload))
	}
	return all
}

func subscribe(t *testing.T, h *harness, stream string, opts ...SubscribeOption) *Subscription {
	t.Helper()
	s, err := h.Subscribe(patient(t), stream, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSubscribeLive(t *testing.T) {
	b := newFakeBroker("s")
	h := start(t, b)
	s := subscribe(t, h, "s")
	for _, m := range numbered(1000) {
		if err := h.Publish(patient(t), "s", []byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	if got := texts(read(t, s, 1000)); !slices.Equal(got, numbered(1000)) {
		t.Errorf("got %d events out of order", len(got))
	}
	if got := s.Stats(); got.Events != 1000 || got.Frames != 1000 || got.Bytes != 2890 {
		t.Errorf("stats %+v", got)
	}
	if s.Stream() != "s" || s.ID() != 1 || b.starts[0] != nil {
		t.Errorf("stream %q, id %d, start %v", s.Stream(), s.ID(), b.starts[0])
	}
}

// The event stream may arrive before or after the answer that names its subscription.
func TestSubscribePairsInEitherOrder(t *testing.T) {
	for _, helloFirst := range []bool{true, false} {
		b := newFakeBroker("s")
		b.onSubscribe = func(c serverConn, st stream, _ *wire.Subscribe) bool {
			ready := make(chan struct{})
			go func() {
				defer close(ready)
				if !helloFirst {
					time.Sleep(50 * time.Millisecond)
				}
				uni, err := c.OpenUniStream(context.Background())
				if err != nil {
					return
				}
				send(uni, &wire.EventStreamHello{SubscriptionID: 7})
				_, _ = uni.Write(must(wire.AppendSharedEventBatch(nil, nil, [][]byte{[]byte("e")})))
			}()
			if helloFirst {
				<-ready
				time.Sleep(50 * time.Millisecond)
			}
			send(st, &wire.Subscribed{SubscriptionID: 7})
			return true
		}
		h := start(t, b)
		s := subscribe(t, h, "s")
		if got := texts(read(t, s, 1)); got[0] != "e" || s.ID() != 7 {
			t.Errorf("hello first %v: %v, id %d", helloFirst, got, s.ID())
		}
	}
}

func TestSubscribeManyAtOnce(t *testing.T) {
	b := newFakeBroker("s")
	h := start(t, b, func(c *Config) { c.EventConns = 3 })
	subs := make(chan *Subscription, 200)
	for range cap(subs) {
		go func() {
			s, err := h.Subscribe(patient(t), "s")
			if err != nil {
				t.Error(err)
			}
			subs <- s
		}()
	}
	all := make([]*Subscription, cap(subs))
	for i := range all {
		all[i] = <-subs
	}
	b.emit("s", "to everybody")
	for _, s := range all {
		if got := texts(read(t, s, 1)); got[0] != "to everybody" {
			t.Fatalf("got %v", got)
		}
	}
	if n := h.net.live(); n != 3 {
		t.Errorf("%d connections", n)
	}
}

// Event streams that nobody has asked for are bounded in number and in time.
func TestUnclaimedEventStreams(t *testing.T) {
	b := newFakeBroker("s")
	h := start(t, b, func(c *Config) { c.MaxPendingEventStreams = 5; c.RequestTimeout = 300 * time.Millisecond })
	subscribe(t, h, "s")
	h.net.mu.Lock()
	conn := h.net.conns[0]
	h.net.mu.Unlock()
	refused := func(write func(sendStream)) (n int) {
		var streams []sendStream
		for range 8 {
			uni, err := conn.OpenUniStream(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			write(uni)
			streams = append(streams, uni)
		}
		before := h.Stats().StreamsRefused
		waitFor(t, func() bool { return h.Stats().StreamsRefused >= before })
		time.Sleep(50 * time.Millisecond)
		for _, uni := range streams {
			var cancelled *transport.StreamError
			if _, err := uni.Write([]byte{0}); errors.As(err, &cancelled) && cancelled.Remote {
				n++
			}
		}
		return n
	}
	if n := refused(func(sendStream) {}); n != 3 {
		t.Errorf("%d of 8 silent streams refused, 5 may be pending", n)
	}
	waitFor(t, func() bool { return h.Stats().StreamsRefused == 8 }) // the silent ones time out
	id := uint64(1000)
	if n := refused(func(uni sendStream) { id++; send(uni, &wire.EventStreamHello{SubscriptionID: id}) }); n != 3 {
		t.Errorf("%d of 8 unknown streams refused, 5 may be pending", n)
	}
	waitFor(t, func() bool { return h.Stats().StreamsRefused == 16 })
	if n := refused(func(uni sendStream) { send(uni, &wire.OK{}) }); n != 8 {
		t.Errorf("%d of 8 streams without hello refused", n)
	}
	subscribe(t, h, "s") // there is room again
}

func TestSubscribeRefusals(t *testing.T) {
	b := newFakeBroker("s")
	b.topics["s"].oldest = 3
	b.emit("s", numbered(5)...)
	h := start(t, b)
	_, err := h.Subscribe(patient(t), "none")
	var missing *NotFoundError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "stream=none") {
		t.Errorf("unknown stream: %v", err)
	}
	for from, want := range map[uint64]CursorError{
		2: {Reason: CursorTooOld, Requested: 2, Available: 3},
		6: {Reason: CursorInFuture, Requested: 6, Available: 5},
	} {
		_, err := h.Subscribe(patient(t), "s", FromOffset(from))
		var cursor *CursorError
		if !errors.As(err, &cursor) || *cursor != want {
			t.Errorf("from %d: %v", from, err)
		}
	}
	s := subscribe(t, h, "s", FromOffset(5))
	b.emit("s", "live")
	if got := read(t, s, 1); string(got[0].Payload) != "live" || got[0].Skipped != 0 {
		t.Errorf("from the tail: %+v", got)
	}
	if got := texts(read(t, subscribe(t, h, "s", FromEarliest()), 3)); !slices.Equal(got, []string{"3", "4", "live"}) {
		t.Errorf("from the earliest: %v", got)
	}
	if h.net.dials != 1 {
		t.Errorf("%d connections", h.net.dials)
	}
}

// An old broker would start at the tail without a word.
func TestSubscribeNeedsOffsets(t *testing.T) {
	b := newFakeBroker("s")
	b.legacy = true
	h := start(t, b)
	for _, o := range []SubscribeOption{FromEarliest(), FromOffset(0)} {
		_, err := h.Subscribe(patient(t), "s", o)
		var missing *UnsupportedError
		if !errors.As(err, &missing) || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("got %v", err)
		}
	}
	if len(b.starts) != 0 {
		t.Error("the broker was asked")
	}
	subscribe(t, h, "s", FromLatest())
}

// A broker may find out after "subscribed" that it cannot serve the subscription.
func TestSubscribeFailsLate(t *testing.T) {
	b := newFakeBroker("s")
	fail := make(chan struct{})
	b.onSubscribe = func(c serverConn, st stream, _ *wire.Subscribe) bool {
		uni, err := c.OpenUniStream(context.Background())
		if err != nil {
			return true
		}
		send(uni, &wire.EventStreamHello{SubscriptionID: 1})
		send(st, &wire.Subscribed{SubscriptionID: 1})
		<-fail
		send(st, &wire.Error{Message: "subscriber lane queue full during register"})
		return true
	}
	h := start(t, b)
	s := subscribe(t, h, "s")
	close(fail)
	_, err := s.Next(patient(t))
	var refused *ServerError
	if !errors.As(err, &refused) || refused.Code != CodeOverloaded {
		t.Errorf("got %v", err)
	}
}

func TestSubscribeUnexpectedAnswer(t *testing.T) {
	b := newFakeBroker("s")
	b.onSubscribe = func(_ serverConn, st stream, _ *wire.Subscribe) bool { send(st, &wire.CacheOK{}); return true }
	h := start(t, b)
	_, err := h.Subscribe(patient(t), "s")
	var protocol *ProtocolError
	if !errors.As(err, &protocol) {
		t.Errorf("got %v", err)
	}
	b.onSubscribe = func(_ serverConn, st stream, _ *wire.Subscribe) bool {
		send(st, &wire.Subscribed{SubscriptionID: 3}) // without an event stream
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := h.Subscribe(ctx, "s"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// A context ends the waiting, not the subscription.
func TestNextContext(t *testing.T) {
	b := newFakeBroker("s")
	h := start(t, b)
	s := subscribe(t, h, "s")
	long, cancel := context.WithCancel(context.Background())
	for range 3 {
		short, end := context.WithTimeout(context.Background(), 20*time.Millisecond)
		if _, err := s.Next(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		end()
		b.emit("s", "a", "b")
		for _, want := range []string{"a", "b"} {
			if ev, err := s.Next(long); err != nil || string(ev.Payload) != want {
				t.Fatalf("%q, %v", ev.Payload, err)
			}
		}
	}
	cancel() // between two calls
	if _, err := s.Next(long); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	b.emit("s", "c")
	if got := texts(read(t, s, 1)); got[0] != "c" {
		t.Errorf("got %v", got)
	}
}

// A frame that was half read when the context ended is completed by the next call.
func TestNextContextInsideFrame(t *testing.T) {
	payload := strings.Repeat("x", 100000)
	b := newFakeBroker("s")
	gate := make(chan struct{})
	b.onEvents = func(uni sendStream, _, _ uint64, p [][]byte) []byte {
		frame := must(wire.AppendSharedEventBatch(nil, nil, p))
		_, _ = uni.Write(frame[:50000])
		<-gate
		return frame[50000:]
	}
	h := start(t, b)
	s := subscribe(t, h, "s")
	go b.emit("s", payload)
	short, end := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer end()
	if _, err := s.Next(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	close(gate)
	if got := texts(read(t, s, 1)); got[0] != payload {
		t.Errorf("%d bytes", len(got[0]))
	}
}

func TestSubscriptionClose(t *testing.T) {
	b := newFakeBroker("s")
	h := start(t, b)
	s := subscribe(t, h, "s")
	waiting := make(chan error)
	go func() {
		_, err := s.Next(context.Background())
		waiting <- err
	}()
	time.Sleep(10 * time.Millisecond)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-waiting; !errors.Is(err, ErrClosed) {
		t.Errorf("waiting reader: %v", err)
	}
	if _, err := s.Next(patient(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("afterwards: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	waitFor(t, func() bool { // STOP_SENDING reaches the broker
		b.emit("s", "x")
		return b.subscribers("s") == 0
	})
	if n := len(h.subs); n != 0 {
		t.Errorf("%d subscriptions kept", n)
	}
	other := subscribe(t, h, "s")
	b.emit("s", "1", "2")
	read(t, other, 1)
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	if _, err := other.Next(patient(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("with an event at hand: %v", err)
	}
}

func TestAllAndEach(t *testing.T) {
	frames := func(uint64) []byte {
		return must(wire.AppendSharedEventBatch(nil, nil, [][]byte{[]byte("a"), []byte("b"), []byte("c")}))
	}
	h := start(t, eventsOf(frames))
	var got []string
	for ev, err := range subscribe(t, h, "s").All(patient(t)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(ev.Payload))
	}
	if !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("All: %v", got)
	}
	for range subscribe(t, h, "s").All(patient(t)) {
		break
	}
	got = nil
	err := subscribe(t, h, "s").Each(patient(t), func(ev Event) error { got = append(got, string(ev.Payload)); return nil })
	if err != nil || len(got) != 3 {
		t.Errorf("Each: %v, %v", got, err)
	}
	stop := errors.New("stop")
	if err := subscribe(t, h, "s").Each(patient(t), func(Event) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("Each: %v", err)
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	n := 0
	for _, err := range subscribe(t, h, "s").All(done) {
		if n++; !errors.Is(err, context.Canceled) {
			t.Errorf("All: %v", err)
		}
	}
	if n != 1 {
		t.Errorf("All yielded %d times", n)
	}
	batch, err := subscribe(t, h, "s").NextBatch(patient(t), nil)
	if err != nil || !slices.Equal(texts(batch), []string{"a", "b", "c"}) {
		t.Errorf("NextBatch: %v, %v", texts(batch), err)
	}
}

// F34: nothing is dropped by the client. A reader that does not read stops the broker by flow control, and gets everything
// once it reads.
func TestSlowReaderLosesNothing(t *testing.T) {
	b := newFakeBroker("s")
	h := startWindow(t, 4096, b)
	s := subscribe(t, h, "s")
	const n = 20000
	emitted := make(chan struct{})
	go func() {
		defer close(emitted)
		for _, m := range numbered(n) {
			b.emit("s", m)
		}
	}()
	time.Sleep(100 * time.Millisecond)
	select {
	case <-emitted:
		t.Fatal("the broker was not held back")
	default:
	}
	if got := texts(read(t, s, n)); !slices.Equal(got, numbered(n)) {
		t.Error("events lost or out of order")
	}
	<-emitted
}
