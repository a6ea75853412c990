package session

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"felix/broker"
	"felix/wire"
)

// benchConn is a connection without a network: its one control stream supplies
// frames from memory, and what is written to event streams is counted.
type benchConn struct {
	ctx     context.Context
	cancel  context.CancelFunc
	streams chan Stream
	events  func(int)
}

func (c *benchConn) AcceptStream(ctx context.Context) (Stream, error) {
	select {
	case s := <-c.streams:
		return s, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *benchConn) AcceptUniStream(ctx context.Context) (ReceiveStream, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (c *benchConn) OpenUniStream(context.Context) (SendStream, error) {
	return &benchStream{conn: c, write: c.events}, nil
}

func (c *benchConn) CloseWithError(uint64, string) error { c.cancel(); return nil }
func (c *benchConn) Context() context.Context            { return c.ctx }
func (c *benchConn) ID() uint64                          { return 1 }
func (c *benchConn) RemoteAddr() net.Addr                { return &net.UDPAddr{} }

// benchStream reads first, then frame n times.
type benchStream struct {
	conn  *benchConn
	first []byte
	frame []byte
	n     int
	off   int
	write func(int)
}

func (s *benchStream) Read(p []byte) (int, error) {
	if len(s.first) > 0 {
		n := copy(p, s.first)
		s.first = s.first[n:]
		return n, nil
	}
	done := 0
	for done < len(p) && s.n > 0 {
		n := copy(p[done:], s.frame[s.off:])
		done += n
		if s.off += n; s.off == len(s.frame) {
			s.off = 0
			s.n--
		}
	}
	if done == 0 {
		return 0, io.EOF
	}
	return done, nil
}

func (s *benchStream) Write(p []byte) (int, error) {
	if s.write != nil {
		s.write(len(p))
	}
	return len(p), nil
}

func (*benchStream) CloseWrite() error                { return nil }
func (*benchStream) CancelRead(uint64)                {}
func (*benchStream) CancelWrite(uint64)               {}
func (*benchStream) SetReadDeadline(time.Time) error  { return nil }
func (*benchStream) SetWriteDeadline(time.Time) error { return nil }
func (s *benchStream) Context() context.Context       { return s.conn.ctx }

// BenchmarkPath takes publish batches through a session and the broker to one
// subscriber, without a network.
func BenchmarkPath(b *testing.B) {
	for _, tc := range []struct {
		batch, size int
		acked       bool
	}{{1, 16, false}, {1, 16, true}, {64, 256, true}, {64, 4096, true}} {
		b.Run(fmt.Sprintf("batch=%d/size=%d/acked=%v", tc.batch, tc.size, tc.acked), func(b *testing.B) {
			e := newEnv(b, func(_ *Config, o *broker.Options) { o.SubPolicy = broker.PolicyBlock })
			var payloads []string
			for range tc.batch {
				payloads = append(payloads, string(bytes.Repeat([]byte{'x'}, tc.size)))
			}
			var request *uint64
			if tc.acked {
				request = id(1)
			}
			frame := publishFrame(b, request, payloads...)
			want := b.N * tc.batch * (tc.size + wire.ItemOverhead)
			var arrived sync.WaitGroup
			arrived.Add(1)
			got := 0
			ctx, cancel := context.WithCancel(b.Context())
			conn := &benchConn{ctx: ctx, cancel: cancel, streams: make(chan Stream, 2)}
			conn.events = func(n int) { // at least the payloads have to come
				if got < want && got+n >= want {
					arrived.Done()
				}
				got += n
			}
			var serving sync.WaitGroup
			serving.Go(func() { _ = e.server.Serve(ctx, conn) })
			hello, err := wire.AppendMessageFrame(nil, &wire.Auth{TenantID: testTenant, Token: e.token()})
			if err != nil {
				b.Fatal(err)
			}
			sub, err := wire.AppendMessageFrame(bytes.Clone(hello), &wire.Subscribe{TenantID: testTenant, Namespace: testNS, Stream: topic})
			if err != nil {
				b.Fatal(err)
			}
			conn.streams <- &benchStream{conn: conn, first: sub}
			eventually(b, "subscribed", func() bool { return e.stream(b).Info().Subscriptions == 1 })
			b.SetBytes(int64(tc.batch * tc.size))
			b.ReportAllocs()
			b.ResetTimer()
			conn.streams <- &benchStream{conn: conn, first: hello, frame: frame, n: b.N}
			arrived.Wait()
			b.StopTimer()
			cancel()
			serving.Wait()
			e.close()
		})
	}
}
