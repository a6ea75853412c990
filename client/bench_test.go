package client

import (
	"context"
	"encoding/binary"
	"io"
	"sync"
	"testing"
	"time"

	"felix/wire"
)

// ackConn is a connection to a broker that accepts everything at no cost.
type ackConn struct{ fakeConn }

func newAckConn(context.Context) (conn, error) {
	c := new(ackConn)
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.uni = make(chan *fakeStream)
	return c, nil
}

func (c *ackConn) OpenStream(context.Context) (stream, error) {
	s := &ackStream{}
	s.moved.L = &s.mu
	context.AfterFunc(c.ctx, func() { _ = s.CloseWrite() })
	return s, nil
}

func (c *ackConn) CloseWithError(uint64, string) error {
	c.cancel(io.EOF)
	return nil
}

// ackStream answers auth and acked publishes. It expects whole frames.
type ackStream struct {
	mu    sync.Mutex
	moved sync.Cond
	out   []byte
	read  int
	eof   bool
}

func (s *ackStream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for b := p; len(b) > 0; {
		h, err := wire.ParseHeader(b, wire.DefaultMaxFrameBytes)
		if err != nil {
			return 0, err
		}
		switch {
		case h.Flags == 0:
			s.out = must(wire.AppendMessageFrame(s.out, &wire.AuthOK{ServerFlags: uint16(wire.KnownFlags)}))
		case h.Flags.Has(wire.FlagPublishAcked):
			s.out = wire.AppendPublishAck(s.out, binary.BigEndian.Uint64(b[wire.HeaderLen:]), "")
		}
		b = b[wire.HeaderLen+int(h.Length):]
	}
	s.moved.Signal()
	return len(p), nil
}

func (s *ackStream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.read == len(s.out) {
		if s.eof {
			return 0, io.EOF
		}
		s.moved.Wait()
	}
	n := copy(p, s.out[s.read:])
	if s.read += n; s.read == len(s.out) {
		s.out, s.read = s.out[:0], 0
	}
	return n, nil
}

func (s *ackStream) CloseWrite() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eof = true
	s.moved.Signal()
	return nil
}

func (*ackStream) SetReadDeadline(time.Time) error  { return nil }
func (*ackStream) SetWriteDeadline(time.Time) error { return nil }
func (*ackStream) CancelRead(uint64)                {}
func (*ackStream) CancelWrite(uint64)               {}

func ackClient(tb testing.TB) *Client {
	cfg, err := testConfig().withDefaults()
	if err != nil {
		tb.Fatal(err)
	}
	c, err := connect(context.Background(), cfg, newAckConn)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// loopStream delivers the same bytes for ever.
type loopStream struct {
	data []byte
	at   int
}

func (s *loopStream) Read(p []byte) (int, error) {
	n := copy(p, s.data[s.at:])
	s.at = (s.at + n) % len(s.data)
	return n, nil
}

func (*loopStream) SetReadDeadline(time.Time) error { return nil }
func (*loopStream) CancelRead(uint64)               {}

// loopSubscription reads frames of 64 events of the given size.
func loopSubscription(c *Client, size int) *Subscription {
	payloads := make([][]byte, 64)
	for i := range payloads {
		payloads[i] = make([]byte, size)
	}
	st := &loopStream{data: must(wire.AppendSharedEventBatch(nil, nil, payloads))}
	s := &Subscription{c: c, stream: "s"}
	s.life, s.cancel = context.WithCancel(context.Background())
	s.es = &eventStream{link: new(link), st: st, fr: wire.NewFrameReader(st, wire.DefaultMaxFrameBytes)}
	return s
}

func BenchmarkPublish(b *testing.B) {
	c := ackClient(b)
	payload := make([]byte, 256)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Publish(context.Background(), "s", payload); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPublishBatch64(b *testing.B) {
	for name, mode := range map[string]AckMode{"acked": AckPerBatch, "none": AckNone} {
		b.Run(name, func(b *testing.B) {
			c := ackClient(b)
			payloads := make([][]byte, 64)
			for i := range payloads {
				payloads[i] = make([]byte, 256)
			}
			b.ReportAllocs()
			b.SetBytes(64 * 256)
			for b.Loop() {
				if err := c.PublishBatch(context.Background(), "s", payloads, WithAck(mode)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPublisher counts messages, in batches of 64.
func BenchmarkPublisher(b *testing.B) {
	c := ackClient(b)
	p := c.NewPublisher("s", PublisherOptions{})
	payload := make([]byte, 256)
	b.ReportAllocs()
	b.SetBytes(256)
	for b.Loop() {
		if err := p.Publish(context.Background(), payload); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.Flush(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkNext counts events, which arrive in frames of 64.
func BenchmarkNext(b *testing.B) {
	s := loopSubscription(ackClient(b), 256)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.ReportAllocs()
	b.SetBytes(256)
	for b.Loop() {
		if _, err := s.Next(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNextBatch counts frames of 64 events.
func BenchmarkNextBatch(b *testing.B) {
	s := loopSubscription(ackClient(b), 256)
	b.ReportAllocs()
	b.SetBytes(64 * 256)
	var events []Event
	for b.Loop() {
		var err error
		if events, err = s.NextBatch(context.Background(), events[:0]); err != nil {
			b.Fatal(err)
		}
	}
}
