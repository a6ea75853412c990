package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"felix/transport"
	"felix/udp"
	"felix/wire"
)

// quicServerConn is the broker's side of a real connection.
type quicServerConn struct{ *transport.Conn }

func (c quicServerConn) AcceptStream(ctx context.Context) (stream, error) {
	s, err := c.Conn.AcceptStream(ctx)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (c quicServerConn) OpenUniStream(ctx context.Context) (sendStream, error) {
	s, err := c.Conn.OpenUniStream(ctx)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (c quicServerConn) AcceptUniStream(ctx context.Context) (recvStream, error) {
	s, err := c.Conn.AcceptUniStream(ctx)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// loopback is the scripted broker behind a real socket.
type loopback struct {
	t        *testing.T
	b        *fakeBroker
	identity *transport.Identity
	addr     string
	ca       string
	listener *transport.Listener
	done     chan struct{}
}

func newLoopback(t *testing.T, b *fakeBroker) *loopback {
	t.Helper()
	dir := t.TempDir()
	id, err := transport.LoadOrCreateIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	l := &loopback{t: t, b: b, identity: id, addr: "127.0.0.1:0", ca: filepath.Join(dir, "ca.pem")}
	if err := id.WriteCAFile(l.ca); err != nil {
		t.Fatal(err)
	}
	l.start()
	t.Cleanup(l.stop)
	return l
}

func (l *loopback) start() {
	l.t.Helper()
	ln, err := transport.Listen(l.addr, transport.Config{
		TLS: transport.ServerTLS(l.identity), StatelessResetKey: l.identity.ResetKey(),
		Socket: udp.Config{ReadBuffer: 1 << 20, WriteBuffer: 1 << 20},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.listener, l.addr, l.done = ln, ln.Addr().String(), make(chan struct{})
	go func(done chan struct{}) {
		defer close(done)
		for {
			c, err := ln.Accept(context.Background())
			if err != nil {
				return
			}
			go l.b.serve(quicServerConn{c})
		}
	}(l.done)
}

func (l *loopback) stop() {
	if err := l.listener.Close(); err != nil {
		l.t.Error(err)
	}
	<-l.done
}

func (l *loopback) config() Config {
	cfg := testConfig()
	cfg.Addr, cfg.CAFile = l.addr, l.ca
	return cfg
}

func (l *loopback) connect(change ...func(*Config)) *Client {
	l.t.Helper()
	cfg := l.config()
	for _, f := range change {
		f(&cfg)
	}
	c, err := Connect(patient(l.t), cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			l.t.Errorf("close: %v", err)
		}
	})
	return c
}

func TestLoopback(t *testing.T) {
	l := newLoopback(t, newFakeBroker("s"))
	for name, change := range map[string]func(*Config){
		"CA file": func(*Config) {},
		"pool":    func(c *Config) { c.CAFile = ""; c.RootCAs = l.identity.Pool() },
		"ALPN":    func(c *Config) { c.OfferALPN = true },
		"by name": func(c *Config) { c.ServerName = "127.0.0.1" },
	} {
		c := l.connect(change)
		s, err := c.Subscribe(patient(t), "s")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		p := c.NewPublisher("s", PublisherOptions{})
		for _, m := range numbered(1000) {
			if err := p.Publish(patient(t), []byte(m)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if err := p.Flush(patient(t)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, want := range numbered(1000) {
			if ev, err := s.Next(patient(t)); err != nil || string(ev.Payload) != want {
				t.Fatalf("%s: %q, %v, want %s", name, ev.Payload, err, want)
			}
		}
		if err := c.Cache("c1").Put(patient(t), "k", []byte("v"), 0); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if v, ok, err := c.Cache("c1").Get(patient(t), "k"); err != nil || !ok || string(v) != "v" {
			t.Fatalf("%s: %q, %v, %v", name, v, ok, err)
		}
		roles := map[string]int{}
		for _, conn := range c.Connections() {
			if conn.RemoteAddr.String() != l.addr || conn.Stats.BytesSent == 0 || conn.Stats.BytesReceived == 0 {
				t.Errorf("%s: %+v", name, conn)
			}
			roles[conn.Role]++
		}
		if len(roles) != 3 || roles["publish"] != 1 || roles["event"] != 1 || roles["cache"] != 1 {
			t.Errorf("%s: connections %v", name, roles)
		}
	}
}

func TestLoopbackRefusedHandshakes(t *testing.T) {
	l := newLoopback(t, newFakeBroker())
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"unknown CA":  func(c *Config) { c.CAFile = "" },
		"other name":  func(c *Config) { c.ServerName = "broker.example" },
		"no file":     func(c *Config) { c.CAFile = empty + ".not" },
		"empty file":  func(c *Config) { c.CAFile = empty },
		"nobody home": func(c *Config) { c.Addr = "127.0.0.1:9"; c.Transport.HandshakeTimeout = time.Second },
	} {
		cfg := l.config()
		change(&cfg)
		c, err := Connect(patient(t), cfg)
		var lost *ConnectionError
		if !errors.As(err, &lost) || c != nil {
			t.Errorf("%s: %v", name, err)
		}
		var handshake *transport.HandshakeError
		if want := name == "unknown CA" || name == "other name"; errors.As(err, &handshake) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// F19: messages of every size up to the frame limit arrive intact.
func TestLoopbackSizes(t *testing.T) {
	const limit = 2 << 20
	l := newLoopback(t, newFakeBroker("s"))
	c := l.connect(func(cfg *Config) { cfg.MaxFrameBytes = limit })
	s, err := c.Subscribe(patient(t), "s")
	if err != nil {
		t.Fatal(err)
	}
	most := limit - wire.PublishHeader{TenantID: "t1", Namespace: "default", Stream: "s", Acked: true}.PayloadLen(1, 0)
	for _, n := range []int{0, 1, 65535, 65536, 1 << 20, most - 1, most} {
		payload := bytes.Repeat([]byte{byte(n), 0xA5}, n/2+1)[:n]
		result := make(chan error)
		go func() { result <- c.Publish(patient(t), "s", payload) }()
		ev, err := s.Next(patient(t))
		if err != nil || !bytes.Equal(ev.Payload, payload) {
			t.Fatalf("%d bytes: got %d, %v", n, len(ev.Payload), err)
		}
		if err := <-result; err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	var large *TooLargeError
	if err := c.Publish(patient(t), "s", make([]byte, most+1)); !errors.As(err, &large) {
		t.Errorf("one byte too many: %v", err)
	}
}

// F36: after a restart with the same identity the client is back by itself, and a subscription goes on where it was.
func TestLoopbackRestart(t *testing.T) {
	b := newFakeBroker("s")
	b.offsets = true
	l := newLoopback(t, b)
	c := l.connect()
	s, err := c.Subscribe(patient(t), "s")
	if err != nil {
		t.Fatal(err)
	}
	const rounds = 4
	events := make(chan Event, rounds)
	go func() {
		defer close(events)
		_ = s.Each(context.Background(), func(ev Event) error { events <- ev; return nil }) // ends with Close
	}()
	for round := range rounds {
		if err := c.Publish(patient(t), "s", []byte{byte(round)}); err != nil {
			t.Fatal(err)
		}
		if ev := <-events; ev.Payload[0] != byte(round) || ev.Offset != uint64(round) || ev.Skipped != 0 || ev.Resumed {
			t.Fatalf("round %d: %+v", round, ev)
		}
		l.stop()
		time.Sleep(300 * time.Millisecond)
		l.start()
		began := time.Now()
		waitFor(t, func() bool { return c.Stats().Resumptions == uint64(round)+1 })
		t.Logf("resumed %v after the restart", time.Since(began))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if ev, more := <-events; more {
		t.Errorf("an event too many: %+v", ev)
	}
}

// F20: subscriptions that nobody reads do not stop the others on their connection, up to the documented number.
func TestLoopbackUnreadSubscriptions(t *testing.T) {
	const unread, window = 12, 256 << 10
	b := newFakeBroker("s")
	var pumps sync.WaitGroup
	var written atomic.Int64
	b.onSubscribe = func(c serverConn, st stream, m *wire.Subscribe) bool {
		if m.Stream != "unread" {
			return false
		}
		uni, err := c.OpenUniStream(context.Background())
		if err != nil {
			return true
		}
		b.lastSub++
		send(uni, &wire.EventStreamHello{SubscriptionID: b.lastSub})
		send(st, &wire.Subscribed{SubscriptionID: b.lastSub})
		pumps.Go(func() {
			chunk := must(wire.AppendSharedEventBatch(nil, nil, [][]byte{make([]byte, 1<<20)}))
			for {
				n, err := uni.Write(chunk)
				written.Add(int64(n))
				if err != nil {
					return
				}
			}
		})
		return true
	}
	l := newLoopback(t, b)
	c := l.connect(func(cfg *Config) { // in the proportions of the defaults
		cfg.Transport.StreamWindow = transport.Window{Initial: window, Max: 4 * window}
		cfg.Transport.ConnWindow = transport.Window{Initial: 16 * window, Max: 64 * window}
	})
	var idle []*Subscription
	for range unread {
		s, err := c.Subscribe(patient(t), "unread")
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, s)
	}
	s, err := c.Subscribe(patient(t), "s")
	if err != nil {
		t.Fatal(err)
	}
	payload := make([]byte, window)
	for range 20 { // more than is left of the connection's window
		result := make(chan error)
		go func() { result <- c.Publish(patient(t), "s", payload) }()
		if _, err := s.Next(patient(t)); err != nil {
			t.Fatal(err)
		}
		if err := <-result; err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range idle {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	pumps.Wait()
	if n := written.Load(); n < unread*window/2 || n > unread*window {
		t.Errorf("%d bytes went to subscriptions that were not read", n)
	}
}

// The end of an event stream reaches the reader over a real connection, too.
func TestLoopbackEnd(t *testing.T) {
	l := newLoopback(t, eventsOf(func(uint64) []byte {
		return must(wire.AppendSharedEventBatch(nil, nil, [][]byte{[]byte("only")}))
	}))
	c := l.connect()
	s, err := c.Subscribe(patient(t), "s")
	if err != nil {
		t.Fatal(err)
	}
	if ev, err := s.Next(patient(t)); err != nil || string(ev.Payload) != "only" {
		t.Fatalf("%q, %v", ev.Payload, err)
	}
	if _, err := s.Next(patient(t)); !errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
}
