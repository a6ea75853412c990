package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"felix/broker"
	"felix/transport"
	"felix/wire"
)

// quicConn makes a transport connection a Conn.
type quicConn struct{ *transport.Conn }

func (c quicConn) AcceptStream(ctx context.Context) (Stream, error) { return c.Conn.AcceptStream(ctx) }
func (c quicConn) AcceptUniStream(ctx context.Context) (ReceiveStream, error) {
	return c.Conn.AcceptUniStream(ctx)
}
func (c quicConn) OpenUniStream(ctx context.Context) (SendStream, error) {
	return c.Conn.OpenUniStream(ctx)
}

// quicClient is a client that is connected by QUIC over loopback.
type quicClient struct {
	*transport.Conn
	t   *testing.T
	env *env
}

// overQUIC runs f with a server behind a listener.
func overQUIC(t *testing.T, f func(*env, quicClient), opts ...envOption) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	identity, err := transport.LoadOrCreateIdentity(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l, err := transport.Listen("127.0.0.1:0", transport.Config{TLS: transport.ServerTLS(identity)})
	if err != nil {
		t.Fatal(err)
	}
	tlsConfig, err := transport.ClientTLS(transport.ClientTLSOptions{RootCAs: identity.Pool()})
	if err != nil {
		t.Fatal(err)
	}
	d, err := transport.NewDialer(transport.Config{TLS: tlsConfig})
	if err != nil {
		t.Fatal(err)
	}
	e := newEnv(t, opts...)
	e.serving.Go(func() {
		c, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		_ = e.server.Serve(ctx, quicConn{c}) // the tests look at the client's end
	})
	c, err := d.Dial(ctx, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	f(e, quicClient{c, t, e})
	if err := errors.Join(d.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	e.close()
}

// control opens an authenticated control stream.
func (c quicClient) control() (*transport.Stream, *wire.FrameReader) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := c.OpenStream(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	fr := wire.NewFrameReader(s, wire.DefaultMaxFrameBytes)
	c.send(s, &wire.Auth{TenantID: testTenant, Token: c.env.token(), ClientFlags: flags(63)})
	if m, ok := c.message(fr).(*wire.AuthOK); !ok || m.ServerFlags != 63 {
		c.t.Fatalf("answer %+v", m)
	}
	return s, fr
}

func (c quicClient) send(w io.Writer, m wire.Message) {
	c.t.Helper()
	b, err := wire.AppendMessageFrame(nil, m)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

func (c quicClient) message(fr *wire.FrameReader) wire.Message {
	c.t.Helper()
	f, err := fr.Next()
	if err != nil {
		c.t.Fatal(err)
	}
	m, err := wire.ParseMessage(f.Payload())
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

// subscribe returns an event stream that has said hello.
func (c quicClient) subscribe() (*transport.ReceiveStream, *wire.FrameReader) {
	c.t.Helper()
	s, fr := c.control()
	c.send(s, &wire.Subscribe{TenantID: testTenant, Namespace: testNS, Stream: topic})
	if err := s.CloseWrite(); err != nil {
		c.t.Error(err)
	}
	if m, ok := c.message(fr).(*wire.Subscribed); !ok {
		c.t.Fatalf("answer %+v", m)
	}
	if _, err := fr.Next(); err != io.EOF {
		c.t.Errorf("control stream ended with %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ev, err := c.AcceptUniStream(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	events := wire.NewFrameReader(ev, wire.DefaultMaxFrameBytes)
	c.message(events)
	return ev, events
}

// Over QUIC too, a client that writes all of an oversized publish before it
// reads learns why it was refused, the code stops it, and the connection goes on.
func TestQUICOversizedPublish(t *testing.T) {
	overQUIC(t, func(_ *env, c quicClient) {
		s, fr := c.control()
		const size = wire.DefaultMaxFrameBytes + 1
		frame := append(wire.AppendHeader(nil, wire.FlagPublishBatch, size), make([]byte, size)...)
		if _, err := s.Write(frame); err != nil {
			t.Fatal("the client cannot finish writing:", err)
		}
		want := fmt.Sprintf("frame of %d bytes exceeds the limit of %d bytes", size, wire.DefaultMaxFrameBytes)
		if m, ok := c.message(fr).(*wire.Error); !ok || m.Message != want {
			t.Errorf("answer %+v", m)
		}
		if _, err := fr.Next(); err != io.EOF {
			t.Errorf("stream ended with %v", err)
		}
		var stopped *transport.StreamError
		for deadline := time.Now().Add(patience); ; {
			if _, err := s.Write(frame[:1000]); err != nil {
				if !errors.As(err, &stopped) || Code(stopped.Code) != CodeFrameTooLarge {
					t.Errorf("stopped with %v", err)
				}
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the stream was not stopped")
			}
		}
		c.control()
	})
}

// STOP_SENDING on an event stream ends its subscription, without an event.
func TestQUICStopSending(t *testing.T) {
	overQUIC(t, func(e *env, c quicClient) {
		ev, _ := c.subscribe()
		ev.CancelRead(0)
		eventually(t, "subscription gone", func() bool { return e.stream(t).Info().Subscriptions == 0 })
	})
}

// A drain during load: every ack that is owed arrives, every acked publish has
// reached the subscriber, and the connection says why it ends.
func TestQUICDrain(t *testing.T) {
	overQUIC(t, func(e *env, c quicClient) {
		_, events := c.subscribe()
		s, fr := c.control()
		var acked, delivered uint64
		var working sync.WaitGroup
		working.Go(func() {
			for n := uint64(0); ; n++ {
				if _, err := s.Write(publishFrame(t, &n, "x")); err != nil {
					return
				}
			}
		})
		working.Go(func() {
			for {
				f, err := fr.Next()
				if err != nil {
					if err != io.EOF {
						t.Error("acks ended with", err)
					}
					return
				}
				if a, err := wire.ParsePublishAck(f.Payload()); err != nil || a.RequestID != acked {
					t.Errorf("ack %+v, error %v, want %d", a, err, acked)
					return
				} else if a.Failed {
					return
				}
				acked++
			}
		})
		working.Go(func() {
			for {
				f, err := events.Next()
				if err != nil {
					var app *transport.ApplicationError
					if !errors.As(err, &app) || app.Code != 0 || app.Reason != "broker shutting down" {
						t.Error("events ended with", err)
					}
					return
				}
				b, err := wire.ParseEventBatch(f.Flags, f.Payload())
				if err != nil {
					t.Error(err)
					return
				}
				delivered += uint64(b.Items.Len())
			}
		})
		eventually(t, "load", func() bool { return e.stream(t).Info().NextSeq > 1000 })
		var cut *DrainError
		if err := e.server.Drain(context.Background()); !errors.As(err, &cut) || cut.Streams != 1 || cut.Subscriptions != 0 {
			t.Errorf("Drain returned %v", err)
		}
		working.Wait()
		if acked < 1000 || delivered < acked {
			t.Errorf("%d acked, %d delivered", acked, delivered)
		}
	}, func(cfg *Config, _ *broker.Options) {
		cfg.DrainGrace, cfg.DrainIdle, cfg.CloseLinger = 2*time.Second, patience, time.Second
	})
}
