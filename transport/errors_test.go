package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/quic-go/quic-go"
)

func TestCloseReason(t *testing.T) {
	const code, reason = 1<<62 - 1, "broker shutting down – größer"
	for _, byServer := range []bool{true, false} {
		client, server := pair(t, listen(t, nil), dialer(t, nil))
		closer, other := client, server
		if byServer {
			closer, other = server, client
		}
		if closer.Err() != nil || other.Err() != nil {
			t.Fatalf("error of an open connection: %v, %v", closer.Err(), other.Err())
		}
		accepted := make(chan error, 1)
		go func() {
			_, err := other.AcceptStream(context.Background())
			accepted <- err
		}()
		if err := closer.CloseWithError(code, reason); err != nil {
			t.Fatal(err)
		}
		<-other.Context().Done()
		for _, err := range []error{other.Err(), context.Cause(other.Context()), <-accepted} {
			checkClosed(t, err, ApplicationError{Code: code, Reason: reason, Remote: true})
		}
		_, err := closer.OpenStream(testContext(t))
		checkClosed(t, err, ApplicationError{Code: code, Reason: reason})
		checkClosed(t, closer.Err(), ApplicationError{Code: code, Reason: reason})
		_ = closer.CloseWithError(1, "again") // no effect
		checkClosed(t, closer.Err(), ApplicationError{Code: code, Reason: reason})
	}
}

func checkClosed(t *testing.T, err error, want ApplicationError) {
	t.Helper()
	var a *ApplicationError
	if !errors.As(err, &a) || *a != want {
		t.Errorf("got %v, want %v", err, &want)
	}
	if !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v does not match net.ErrClosed", err)
	}
}

func TestStreamCodes(t *testing.T) {
	client, server := pair(t, listen(t, nil), dialer(t, nil))
	ctx := testContext(t)
	open := func() (*Stream, *Stream) {
		t.Helper()
		s, err := client.OpenStream(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		peer, err := server.AcceptStream(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(peer, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		return s, peer
	}
	check := func(what string, err error, code uint64, remote bool) {
		t.Helper()
		var s *StreamError
		if !errors.As(err, &s) || s.Code != code || s.Remote != remote {
			t.Errorf("%s: %v, want code %d, remote %v", what, err, code, remote)
		}
	}

	s, peer := open()
	s.CancelWrite(7)
	_, err := peer.Read(make([]byte, 1))
	check("read of a reset stream", err, 7, true)
	_, err = s.Write([]byte("y"))
	check("write after the reset", err, 7, false)

	s, peer = open()
	s.CancelRead(1<<64 - 1) // more than QUIC can carry
	<-peer.Context().Done()
	_, err = peer.Write([]byte("y"))
	check("write to a stream nobody reads", err, 1<<62-1, true)
	_, err = s.Read(make([]byte, 1))
	check("read after giving up", err, 1<<62-1, false)

	s, peer = open()
	if err := s.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte("y")); !errors.Is(err, ErrStreamClosed) || !errors.Is(err, net.ErrClosed) {
		t.Errorf("write after CloseWrite: %v", err)
	}
	if n, err := peer.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("read after CloseWrite: %d, %v, want io.EOF itself", n, err)
	}
	if err := s.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read after the deadline: %v", err)
	}
}

func TestUniStreamCodes(t *testing.T) {
	client, server := pair(t, listen(t, nil), dialer(t, nil))
	ctx := testContext(t)
	s, err := server.OpenUniStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	peer, err := client.AcceptUniStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if peer.ID() != s.ID() {
		t.Errorf("stream ids %d and %d differ", peer.ID(), s.ID())
	}
	peer.CancelRead(5)
	<-s.Context().Done()
	var e *StreamError
	if _, err = s.Write([]byte("y")); !errors.As(err, &e) || e.Code != 5 || !e.Remote {
		t.Errorf("write: %v, want code 5 of the peer", err)
	}
	s, err = server.OpenUniStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s.CancelWrite(6)
	if peer, err = client.AcceptUniStream(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := peer.Read(make([]byte, 1)); !errors.As(err, &e) || e.Code != 6 || !e.Remote {
		t.Errorf("read: %v, want code 6 of the peer", err)
	}
}

func TestDialErrors(t *testing.T) {
	t.Run("nobody there", func(t *testing.T) {
		d := dialer(t, func(c *Config) { c.HandshakeTimeout = 200 * time.Millisecond })
		sock, err := net.ListenPacket("udp4", "127.0.0.1:0") // bound, so that nobody else answers
		if err != nil {
			t.Fatal(err)
		}
		defer sock.Close()
		_, err = d.Dial(testContext(t), sock.LocalAddr().String())
		if !errors.Is(err, ErrHandshakeTimeout) && !errors.Is(err, ErrIdleTimeout) {
			t.Errorf("dial: %v, want a timeout", err)
		}
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%v is not a timeout to package net", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		cause := errors.New("changed my mind")
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(cause)
		_, err := dialer(t, nil).Dial(ctx, "127.0.0.1:9")
		if !errors.Is(err, cause) {
			t.Errorf("dial: %v, want the cause", err)
		}
	})
	t.Run("bad address", func(t *testing.T) {
		for _, addr := range []string{"", "localhost", "localhost:no-such-port-name", "[::1:1"} {
			if _, err := dialer(t, nil).Dial(testContext(t), addr); err == nil {
				t.Errorf("dial %q succeeded", addr)
			}
		}
	})
	t.Run("dialer closed", func(t *testing.T) {
		d := dialer(t, nil)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Dial(testContext(t), "127.0.0.1:9"); !errors.Is(err, ErrEndpointClosed) {
			t.Errorf("dial: %v, want ErrEndpointClosed", err)
		}
	})
	t.Run("listener closed", func(t *testing.T) {
		l := listen(t, nil)
		accepted := make(chan error, 1)
		go func() {
			_, err := l.Accept(context.Background())
			accepted <- err
		}()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-accepted; !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept: %v, want net.ErrClosed", err)
		}
	})
}

func TestMapError(t *testing.T) {
	other := errors.New("other")
	for _, test := range []struct{ from, to error }{
		{nil, nil},
		{other, other},
		{&quic.IdleTimeoutError{}, ErrIdleTimeout},
		{&quic.HandshakeTimeoutError{}, ErrHandshakeTimeout},
		{&quic.StatelessResetError{}, ErrStatelessReset},
		{quic.ErrServerClosed, ErrEndpointClosed},
		{quic.ErrTransportClosed, ErrEndpointClosed},
		{quic.ErrStreamClosed, ErrStreamClosed},
		{&quic.TransportError{ErrorCode: quic.ConnectionRefused, Remote: true}, ErrRefused},
		{&quic.TransportError{ErrorCode: quic.ConnectionRefused}, ErrRefused},
		{os.NewSyscallError("sendmsg", syscall.EMSGSIZE), ErrPacketTooBig},
		{&quic.TransportError{ErrorCode: quic.InternalError, ErrorMessage: "write: sendmsg: message too long"}, ErrPacketTooBig},
	} {
		if got := mapError(test.from); !errors.Is(got, test.to) {
			t.Errorf("mapError(%v) = %v, want %v", test.from, got, test.to)
		}
	}
	err := mapError(&quic.TransportError{ErrorCode: quic.FlowControlError, ErrorMessage: "too much", Remote: true})
	var p *ProtocolError
	if !errors.As(err, &p) || p.Code != 3 || p.Reason != "too much" || !p.Remote || !errors.Is(err, net.ErrClosed) {
		t.Errorf("flow control error: %v", err)
	}
	err = mapError(&quic.TransportError{ErrorCode: 0x100 + 48, Remote: true})
	var h *HandshakeError
	if !errors.As(err, &h) || h.Kind != FailCertificate || h.Alert != 48 || !h.Remote {
		t.Errorf("unknown CA: %v", err)
	}
	err = mapError(&quic.VersionNegotiationError{Ours: []quic.Version{1}, Theirs: []quic.Version{2}})
	if !errors.As(err, &p) || !strings.Contains(err.Error(), "version") {
		t.Errorf("version negotiation: %v", err)
	}
}

func TestFailureKinds(t *testing.T) {
	for err, want := range map[error]HandshakeFailure{
		&HandshakeError{Kind: FailTLS}:  FailTLS,
		ErrHandshakeTimeout:             FailTimeout,
		ErrIdleTimeout:                  FailTimeout,
		ErrRefused:                      FailLimit,
		&ApplicationError{Remote: true}: FailAborted,
		&ProtocolError{Remote: true}:    FailAborted,
		&ProtocolError{}:                FailProtocol,
		errors.New("something else"):    FailOther,
		&HandshakeError{Kind: FailALPN}: FailALPN,
	} {
		if got := failureKind(err); got != want {
			t.Errorf("failureKind(%v) = %s, want %s", err, got, want)
		}
	}
	seen := make(map[string]bool)
	for _, f := range HandshakeFailures() {
		if name := f.String(); name == "" || seen[name] {
			t.Errorf("kind %d has the name %q", f, name)
		} else {
			seen[name] = true
		}
	}
}

// TestLongCloseReason: a reason that does not fit a packet arrives cut, at a character boundary.
func TestLongCloseReason(t *testing.T) {
	client, server := pair(t, listen(t, nil), dialer(t, nil))
	_ = server.CloseWithError(3, "x"+strings.Repeat("ö", 2000)) // always nil
	<-client.Context().Done()
	var a *ApplicationError
	if !errors.As(client.Err(), &a) || a.Code != 3 || !strings.HasPrefix(a.Reason, "xööö") || len(a.Reason) < 500 || !utf8.ValidString(a.Reason) {
		t.Errorf("got %v", client.Err())
	}
}
