package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"felix/client"
	"felix/internal/testkit"
	"felix/transport"
	"felix/wire"
)

// daemonConfig returns the settings for a client of a broker in development mode.
func daemonConfig(t *testing.T, d *testkit.Daemon) client.Config {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(d.DataDir, "endpoint.json"))
	if err != nil {
		t.Fatal(err)
	}
	var e struct {
		Addr      string `json:"addr"`
		CAFile    string `json:"ca_file"`
		TokenFile string `json:"token_file"`
		Tenant    string `json:"tenant"`
	}
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(e.TokenFile)
	if err != nil {
		t.Fatal(err)
	}
	return client.Config{Addr: e.Addr, CAFile: e.CAFile, Tenant: e.Tenant, Token: strings.TrimSpace(string(token))}
}

func connectDaemon(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	c, err := client.Connect(within(t, 20*time.Second), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// F34: as many small publishes as fast as they go, default settings everywhere: nothing is lost or out of order.
func TestDaemonLosesNothing(t *testing.T) {
	c := connectDaemon(t, daemonConfig(t, testkit.StartDaemon(t, nil)))
	ctx := within(t, time.Minute)
	for _, mode := range []client.AckMode{client.AckPerBatch, client.AckPerMessage, client.AckNone} {
		sub, err := c.Subscribe(ctx, "numbers")
		if err != nil {
			t.Fatal(err)
		}
		const n = 20000
		go func() {
			p := c.NewPublisher("numbers", client.PublisherOptions{Ack: mode})
			for i := range n {
				if err := p.Publish(ctx, strconv.AppendInt(nil, int64(i), 10)); err != nil {
					t.Error(err)
					return
				}
			}
			if err := p.Close(ctx); err != nil {
				t.Error(err)
			}
		}()
		for i := range n {
			ev, err := sub.Next(ctx)
			if err != nil || string(ev.Payload) != strconv.Itoa(i) {
				t.Fatalf("mode %d: %q, %v, want %d", mode, ev.Payload, err, i)
			}
		}
		if err := sub.Close(); err != nil {
			t.Error(err)
		}
	}
}

// F19: the size that the client calls the limit is the one that the broker still takes.
func TestDaemonSizes(t *testing.T) {
	c := connectDaemon(t, daemonConfig(t, testkit.StartDaemon(t, nil)))
	ctx := within(t, time.Minute)
	sub, err := c.Subscribe(ctx, "s")
	if err != nil {
		t.Fatal(err)
	}
	most := wire.DefaultMaxFrameBytes -
		wire.PublishHeader{TenantID: "t1", Namespace: "default", Stream: "s", Acked: true}.PayloadLen(1, 0)
	for _, n := range []int{0, 1, 65535, 65536, 1 << 20, most} {
		payload := bytes.Repeat([]byte{byte(n), 0x5A}, n/2+1)[:n]
		if err := c.Publish(ctx, "s", payload); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if ev, err := sub.Next(ctx); err != nil || !bytes.Equal(ev.Payload, payload) {
			t.Fatalf("%d bytes: got %d, %v", n, len(ev.Payload), err)
		}
	}
	var large *client.TooLargeError
	if err := c.Publish(ctx, "s", make([]byte, most+1)); !errors.As(err, &large) {
		t.Errorf("one byte too many: %v", err)
	}
}

func TestDaemonRefusals(t *testing.T) {
	cfg := daemonConfig(t, testkit.StartDaemon(t, nil))
	var auth *client.AuthError
	bad := cfg
	bad.Token = "nonsense"
	if _, err := client.Connect(within(t, 20*time.Second), bad); !errors.As(err, &auth) {
		t.Errorf("token: %v", err)
	}
	bad = cfg
	bad.Tenant = "other"
	if _, err := client.Connect(within(t, 20*time.Second), bad); !errors.As(err, &auth) {
		t.Errorf("tenant: %v", err)
	}
	elsewhere := cfg
	elsewhere.Namespace = "nowhere"
	c := connectDaemon(t, elsewhere)
	ctx := within(t, 20*time.Second)
	var missing *client.NotFoundError
	if err := c.Publish(ctx, "s", nil); !errors.As(err, &missing) {
		t.Errorf("publish: %v", err)
	}
	if _, err := c.Subscribe(ctx, "s"); !errors.As(err, &missing) {
		t.Errorf("subscribe: %v", err)
	}
	if _, _, err := c.Cache("c").Get(ctx, "k"); !errors.As(err, &missing) {
		t.Errorf("cache: %v", err)
	}
}

func TestDaemonCacheAndReplay(t *testing.T) {
	c := connectDaemon(t, daemonConfig(t, testkit.StartDaemon(t, nil)))
	ctx := within(t, 20*time.Second)
	if err := c.Cache("c").Put(ctx, "k", []byte("v"), 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if v, ok, err := c.Cache("c").Get(ctx, "k"); err != nil || !ok || string(v) != "v" {
		t.Errorf("%q, %v, %v", v, ok, err)
	}
	testkit.Eventually(t, 10*time.Second, "the entry expires", func() bool {
		_, ok, err := c.Cache("c").Get(ctx, "k")
		return err == nil && !ok
	})
	if err := c.PublishBatch(ctx, "s", [][]byte{[]byte("a"), []byte("b"), []byte("c")}); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]client.SubscribeOption{"abc": client.FromEarliest(), "bc": client.FromOffset(1)} {
		sub, err := c.Subscribe(ctx, "s", want)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for range from {
			ev, err := sub.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			got.Write(ev.Payload)
		}
		if got.String() != from {
			t.Errorf("replayed %q, want %q", got.String(), from)
		}
	}
	var cursor *client.CursorError
	if _, err := c.Subscribe(ctx, "s", client.FromOffset(99)); !errors.As(err, &cursor) || cursor.Available != 3 {
		t.Errorf("past the end: %v", err)
	}
}

// F15: a broker that is killed and started again; busy clients notice at once and go on.
func TestDaemonKilled(t *testing.T) {
	d := testkit.StartDaemon(t, nil)
	c := connectDaemon(t, daemonConfig(t, d))
	ctx := within(t, 2*time.Minute)
	sub, err := c.Subscribe(ctx, "s")
	if err != nil {
		t.Fatal(err)
	}
	var seen atomic.Int64
	seen.Store(-1)
	reader := make(chan error, 1)
	go func() {
		reader <- sub.Each(ctx, func(ev client.Event) error {
			n, err := strconv.ParseInt(string(ev.Payload), 10, 64)
			seen.Store(max(seen.Load(), n))
			return err
		})
	}()
	stop := make(chan struct{})
	published := make(chan int, 1)
	go func() {
		i := 0
		for {
			select {
			case <-stop:
				published <- i
				return
			default:
			}
			if err := c.Publish(ctx, "s", strconv.AppendInt(nil, int64(i), 10), client.WithRetry(client.AtLeastOnce)); err != nil {
				t.Error(err)
				published <- i
				return
			}
			i++
		}
	}()
	for round := uint64(1); round <= 3; round++ {
		at := seen.Load()
		testkit.Eventually(t, 20*time.Second, "messages flow", func() bool { return seen.Load() > at+10 })
		_ = d.Stop(syscall.SIGKILL) // the error says that it was killed
		time.Sleep(500 * time.Millisecond)
		d.Start()
		began := time.Now()
		testkit.Eventually(t, 20*time.Second, "subscription is back", func() bool { return sub.Stats().Resumptions == round })
		t.Logf("back %v after the broker", time.Since(began))
	}
	at := seen.Load()
	testkit.Eventually(t, 20*time.Second, "messages flow", func() bool { return seen.Load() > at+10 })
	close(stop)
	last := int64(<-published) - 1
	testkit.Eventually(t, 20*time.Second, "the last message arrives", func() bool { return seen.Load() == last })
	if n := len(c.Connections()); n != 2 {
		t.Errorf("%d connections", n)
	}
	if err := sub.Close(); err != nil {
		t.Error(err)
	}
	if err := <-reader; !errors.Is(err, client.ErrClosed) {
		t.Errorf("reader: %v", err)
	}
}

// F16: a peer that is suspended for longer than the idle timeout, again and again. The client is back soon after it, with
// one connection per slot, and has gathered neither descriptors nor goroutines.
func TestDaemonSuspended(t *testing.T) {
	d := testkit.StartDaemon(t, nil)
	cfg := daemonConfig(t, d)
	cfg.Transport = transport.Config{
		KeepAlive: 250 * time.Millisecond, IdleTimeout: time.Second, HandshakeTimeout: 2 * time.Second,
	}
	c := connectDaemon(t, cfg)
	ctx := within(t, 2*time.Minute)
	sub, err := c.Subscribe(ctx, "s")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = sub.Each(ctx, func(client.Event) error { return nil }) }() // ends with Close
	var files, goroutines int
	for round := 1; round <= 4; round++ {
		before := sub.Stats().Resumptions // with so short a timeout a busy machine adds some
		d.Signal(syscall.SIGSTOP)
		testkit.Eventually(t, 20*time.Second, "the loss is noticed", func() bool { return len(c.Connections()) == 0 })
		time.Sleep(500 * time.Millisecond)
		d.Signal(syscall.SIGCONT)
		if err := c.Publish(within(t, 20*time.Second), "s", nil); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, 20*time.Second, "subscription is back", func() bool { return sub.Stats().Resumptions > before })
		if n := len(c.Connections()); n != 2 {
			t.Errorf("round %d: %d connections", round, n)
		}
		if round == 1 {
			files, goroutines = testkit.OpenDescriptors(t, 0), runtime.NumGoroutine()
		}
	}
	testkit.Eventually(t, 20*time.Second, "nothing is left behind", func() bool {
		return testkit.OpenDescriptors(t, 0) <= files && runtime.NumGoroutine() <= goroutines
	})
	if err := sub.Close(); err != nil {
		t.Error(err)
	}
}
