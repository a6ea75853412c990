package client

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"felix/internal/testkit"
	"felix/wire"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		testkit.RemovePrograms()
		os.Exit(code)
	}))
}

func TestPublishAckModes(t *testing.T) {
	h := start(t, newFakeBroker("s"))
	for _, c := range []struct {
		mode  AckMode
		acked bool
		ack   wire.AckMode
	}{
		{AckDefault, true, wire.AckPerBatch},
		{AckPerBatch, true, wire.AckPerBatch},
		{AckPerMessage, true, wire.AckPerMessage},
		{AckNone, false, wire.AckNone},
	} {
		if err := h.PublishBatch(patient(t), "s", [][]byte{[]byte("a"), {}, []byte("b")}, WithAck(c.mode)); err != nil {
			t.Fatalf("mode %d: %v", c.mode, err)
		}
		waitFor(t, func() bool { return len(h.b.requests()) > 0 })
		r := h.b.requests()[0]
		h.b.mu.Lock()
		h.b.log = nil
		h.b.mu.Unlock()
		if r.acked != c.acked || r.ack != c.ack || r.json || !slices.Equal(r.payloads, []string{"a", "", "b"}) {
			t.Errorf("mode %d: broker saw %+v", c.mode, r)
		}
	}
	if err := h.Publish(patient(t), "s", []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := h.PublishBatch(patient(t), "s", nil); err != nil {
		t.Fatal(err)
	}
	if got := h.Stats(); got.PublishMessages != 4*3+1 || got.PublishRequests != 6 || got.PublishFailures != 0 {
		t.Errorf("stats %+v", got)
	}
}

func waitFor(t testing.TB, cond func() bool) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("condition not met in time")
		}
	}
}

func TestPublishToBrokerWithoutBinaryAcks(t *testing.T) {
	b := newFakeBroker("s")
	b.legacy = true
	h := start(t, b)
	ctx := patient(t)
	if err := h.PublishBatch(ctx, "s", [][]byte{[]byte("x"), []byte("y")}); err != nil {
		t.Fatal(err)
	}
	if err := h.Publish(ctx, "s", []byte("z"), WithAck(AckNone)); err != nil {
		t.Fatal(err)
	}
	err := h.Publish(ctx, "unknown", []byte("z"))
	var missing *NotFoundError
	if !errors.As(err, &missing) {
		t.Errorf("unknown stream: %v", err)
	}
	waitFor(t, func() bool { return len(b.requests()) == 3 })
	log := b.requests()
	if !log[0].json || !log[0].acked || !slices.Equal(log[0].payloads, []string{"x", "y"}) || log[0].ack != wire.AckPerBatch {
		t.Errorf("acked publish arrived as %+v", log[0])
	}
	for _, r := range log {
		if r.payloads[0] == "z" && r.stream == "s" && r.json {
			t.Errorf("unacked publish arrived as %+v", r)
		}
	}
}

func TestPublishKey(t *testing.T) {
	for _, known := range []bool{false, true} {
		b := newFakeBroker("s")
		b.flags = wire.KnownFlags
		if known {
			b.flags |= wire.FlagKeyed
		}
		h := start(t, b)
		if err := h.Publish(patient(t), "s", []byte("p"), WithKey([]byte("k"))); err != nil {
			t.Fatal(err)
		}
		r := b.requests()[0]
		if r.keyed != known || known && r.key != "k" || r.payloads[0] != "p" || !r.acked {
			t.Errorf("broker knows keys: %v, saw %+v", known, r)
		}
	}
}

// Answers are matched by id, so that a broker may give them in any order.
func TestPublishAcksOutOfOrder(t *testing.T) {
	b := newFakeBroker("s")
	var mu sync.Mutex
	var held []received
	b.onAck = func(st stream, r received, _ string) bool {
		mu.Lock()
		defer mu.Unlock()
		held = append(held, r)
		if len(held) == 20 {
			for i := range held {
				r := held[(i*7+3)%20]
				text := ""
				if r.payloads[0] == "13" {
					text = wire.TextServerOverloaded
				}
				answerTo(st, r, text)
			}
		}
		return true
	}
	h := start(t, b, func(c *Config) { c.PublishStreams = 1 })
	var wg sync.WaitGroup
	for _, n := range numbered(20) {
		wg.Go(func() {
			err := h.Publish(patient(t), "s", []byte(n))
			var refused *ServerError
			if n == "13" {
				if !errors.As(err, &refused) || refused.Code != CodeOverloaded {
					t.Errorf("13: %v", err)
				}
			} else if err != nil {
				t.Errorf("%s: %v", n, err)
			}
		})
	}
	wg.Wait()
}

func TestPublishAnswerToNothing(t *testing.T) {
	for name, id := range map[string]uint64{"unknown": 99, "twice": 1} {
		t.Run(name, func(t *testing.T) {
			b := newFakeBroker("s")
			b.onAck = func(st stream, r received, _ string) bool {
				if r.id == 2 {
					_, _ = st.Write(wire.AppendPublishAck(nil, id, ""))
					return true
				}
				return false
			}
			h := start(t, b)
			if err := h.Publish(patient(t), "s", []byte("a")); err != nil {
				t.Fatal(err)
			}
			err := h.Publish(patient(t), "s", []byte("b"))
			var lost *ConnectionError
			var protocol *ProtocolError
			if !errors.As(err, &lost) || !lost.OutcomeUnknown || !errors.As(err, &protocol) {
				t.Errorf("got %v", err)
			}
			if err := h.Publish(patient(t), "s", []byte("c")); err != nil {
				t.Errorf("on the next stream: %v", err)
			}
		})
	}
}

func TestPublishRefusals(t *testing.T) {
	b := newFakeBroker("s")
	text := ""
	b.onPublish = func(received) (string, bool) { return text, true }
	h := start(t, b)
	for _, c := range []struct {
		text string
		want error
	}{
		{wire.TextForbidden, &AuthError{Message: wire.TextForbidden, Forbidden: true}},
		{wire.StreamNotFoundText("t1", "default", "s"), &NotFoundError{Message: wire.StreamNotFoundText("t1", "default", "s")}},
		{wire.TextQueueFull, &ServerError{Message: wire.TextQueueFull, Code: CodeOverloaded, Retry: RetryAfter}},
		{wire.TextQueueClosed, &ServerError{Message: wire.TextQueueClosed, Code: CodeDraining, Retry: RetryNow}},
		{wire.TextCommitTimeout, &ServerError{Message: wire.TextCommitTimeout, Code: CodeUnacknowledged, Retry: RetryOutcomeUnknown}},
		{"something new", &ServerError{Message: "something new", Retry: RetryFatal}},
	} {
		text = c.text
		err := h.Publish(patient(t), "s", []byte("p"))
		if fmt.Sprintf("%#v", err) != fmt.Sprintf("%#v", c.want) && fmt.Sprintf("%T %v", err, err) != fmt.Sprintf("%T %v", c.want, c.want) {
			t.Errorf("%q became %#v, want %#v", c.text, err, c.want)
		}
		if s, ok := c.want.(*ServerError); ok {
			var got *ServerError
			if !errors.As(err, &got) || *got != *s {
				t.Errorf("%q became %#v", c.text, err)
			}
		}
	}
	text = ""
	if err := h.Publish(patient(t), "s", []byte("p")); err != nil {
		t.Errorf("refusals must leave the stream usable: %v", err)
	}
	if h.net.dials != 1 || len(b.auths) != 1 {
		t.Errorf("%d dials, %d streams", h.net.dials, len(b.auths))
	}
}

// An error without a request id belongs to the oldest request; those behind it are of unknown outcome.
func TestPublishStreamError(t *testing.T) {
	b := newFakeBroker("s")
	var mu sync.Mutex
	n := 0
	b.onAck = func(st stream, _ received, _ string) bool {
		mu.Lock()
		defer mu.Unlock()
		if n++; n == 3 {
			send(st, &wire.Error{Message: wire.TextTenantMismatch})
			_ = st.CloseWrite()
		}
		return true
	}
	h := start(t, b, func(c *Config) { c.PublishStreams = 1 })
	results := make(chan error, 3)
	for range 3 {
		go func() { results <- h.Publish(patient(t), "s", []byte("p")) }()
	}
	var refused, unknown int
	for range 3 {
		err := <-results
		var lost *ConnectionError
		var auth *AuthError
		if !errors.As(err, &auth) {
			t.Errorf("no reason in %v", err)
		}
		if errors.As(err, &lost) {
			unknown++
		} else {
			refused++
		}
	}
	if refused != 1 || unknown != 2 {
		t.Errorf("%d refused, %d unknown", refused, unknown)
	}
}

// A broker that stops reading says why on the other direction; that is what the caller gets, not the bare stop.
func TestPublishStoppedWithReason(t *testing.T) {
	b := newFakeBroker("s")
	const text = "frame of 2097190 bytes exceeds the limit of 1048576 bytes"
	b.onAck = func(st stream, _ received, _ string) bool {
		st.CancelRead(5)
		time.Sleep(50 * time.Millisecond)
		send(st, &wire.Error{Message: text})
		_ = st.CloseWrite()
		return true
	}
	h := start(t, b)
	results := make(chan error, 2)
	go func() { results <- h.Publish(patient(t), "s", nil) }()
	waitFor(t, func() bool { return h.Stats().PublishRequests == 1 })
	go func() { results <- h.Publish(patient(t), "s", make([]byte, 2<<20)) }() // does not fit the window
	for range 2 {
		err := <-results
		var refused *ServerError
		if !errors.As(err, &refused) || refused.Code != CodeLimitExceeded || refused.Message != text {
			t.Errorf("got %v", err)
		}
	}
}

// F35: a publish that does not fit a frame is refused before anything is sent, and the error names the limit.
func TestPublishTooLarge(t *testing.T) {
	const limit = 4096
	b := newFakeBroker("s")
	h := start(t, b, func(c *Config) { c.MaxFrameBytes = limit })
	ctx := patient(t)
	overhead := wire.PublishHeader{TenantID: "t1", Namespace: "default", Stream: "s", Acked: true}.PayloadLen(1, 0)
	for _, n := range []int{0, 1, limit - overhead - 1, limit - overhead} {
		if err := h.Publish(ctx, "s", make([]byte, n)); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	sent := h.Stats().PublishRequests
	for _, n := range []int{limit - overhead + 1, limit, 4 << 20} {
		err := h.Publish(ctx, "s", make([]byte, n))
		var large *TooLargeError
		if !errors.As(err, &large) || large.Limit != limit || large.Size != n+overhead || !strings.Contains(err.Error(), "4096") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	p := h.NewPublisher("s", PublisherOptions{})
	var large *TooLargeError
	if err := p.Publish(ctx, make([]byte, limit)); !errors.As(err, &large) {
		t.Errorf("publisher: %v", err)
	}
	if err := p.Publish(ctx, []byte("small")); err != nil {
		t.Errorf("publisher, after a refusal: %v", err)
	}
	if err := p.Close(ctx); err != nil {
		t.Error(err)
	}
	if got := h.Stats().PublishRequests; got != sent+1 {
		t.Errorf("%d requests sent, want %d", got, sent+1)
	}
}

func TestPublishTooLargeAsJSON(t *testing.T) {
	b := newFakeBroker("s")
	b.legacy = true
	h := start(t, b, func(c *Config) { c.MaxFrameBytes = 1000 })
	var large *TooLargeError
	if err := h.Publish(patient(t), "s", make([]byte, 900)); !errors.As(err, &large) || large.Size < 1200 {
		t.Errorf("got %v", err)
	}
	if err := h.Publish(patient(t), "s", make([]byte, 100)); err != nil {
		t.Error(err)
	}
}

// A lost connection fails what was under way, once, and the next publish finds a new one.
func TestPublishAtMostOnce(t *testing.T) {
	b := newFakeBroker("s")
	arrived := make(chan struct{}, 1)
	b.onPublish = func(r received) (string, bool) {
		if r.payloads[0] == "lost" {
			arrived <- struct{}{}
			return "", false
		}
		return "", true
	}
	h := start(t, b)
	result := make(chan error)
	go func() { result <- h.Publish(patient(t), "s", []byte("lost")) }()
	<-arrived
	h.cut()
	err := <-result
	var lost *ConnectionError
	if !errors.As(err, &lost) || !lost.OutcomeUnknown || !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if err := h.Publish(patient(t), "s", []byte("next")); err != nil {
		t.Errorf("after the loss: %v", err)
	}
	waitFor(t, func() bool { return h.Stats().ConnectionsLost == 1 })
	if got := h.Stats(); got.Dials != 2 || got.PublishFailures != 1 {
		t.Errorf("stats %+v", got)
	}
	if n := len(b.requests()); n != 2 {
		t.Errorf("broker saw %d publishes", n)
	}
}

func TestPublishAtLeastOnce(t *testing.T) {
	b := newFakeBroker("s")
	var mu sync.Mutex
	tries := 0
	cut := make(chan struct{}, 1)
	b.onPublish = func(received) (string, bool) {
		mu.Lock()
		defer mu.Unlock()
		switch tries++; tries {
		case 1:
			cut <- struct{}{}
			return "", false
		case 2:
			return wire.TextQueueFull, true
		case 3:
			return wire.TextCommitTimeout, true
		}
		return "", true
	}
	h := start(t, b)
	go func() {
		<-cut
		h.cut()
	}()
	if err := h.Publish(patient(t), "s", []byte("p"), WithRetry(AtLeastOnce)); err != nil {
		t.Fatal(err)
	}
	if tries != 4 {
		t.Errorf("%d attempts", tries)
	}
	b.onPublish = func(received) (string, bool) { tries++; return wire.TextServerOverloaded, true }
	tries = 0
	var refused *ServerError
	if err := h.Publish(patient(t), "s", []byte("p"), WithRetry(AtLeastOnce)); !errors.As(err, &refused) || tries != DefaultMaxAttempts {
		t.Errorf("%d attempts, then %v", tries, err)
	}
	tries = 0
	b.onPublish = func(received) (string, bool) { tries++; return wire.TextForbidden, true }
	var auth *AuthError
	if err := h.Publish(patient(t), "s", []byte("p"), WithRetry(AtLeastOnce)); !errors.As(err, &auth) || tries != 1 {
		t.Errorf("%d attempts, then %v", tries, err)
	}
}

func TestPublishOptions(t *testing.T) {
	h := start(t, newFakeBroker("s"))
	for name, opts := range map[string][]PublishOption{
		"ack mode":          {WithAck(AckNone + 1)},
		"retry":             {WithRetry(AtLeastOnce + 1)},
		"retry without ack": {WithRetry(AtLeastOnce), WithAck(AckNone)},
	} {
		if err := h.Publish(patient(t), "s", nil, opts...); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := h.Publish(patient(t), "\xff", nil); !errors.Is(err, wire.ErrInvalidUTF8) {
		t.Errorf("stream name: %v", err)
	}
	if err := h.Publish(patient(t), strings.Repeat("s", 70000), nil); !errors.Is(err, wire.ErrIDTooLong) {
		t.Errorf("long stream name: %v", err)
	}
}
