package transport

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
)

// vanishing is a socket whose owner sends one datagram and is never heard of again.
type vanishing struct {
	net.PacketConn
	sent  atomic.Int32
	leave context.CancelFunc
}

func (v *vanishing) WriteTo(p []byte, a net.Addr) (int, error) {
	if v.sent.Add(1) > 1 {
		return len(p), nil
	}
	defer v.leave()
	return v.PacketConn.WriteTo(p, a)
}

// vanish starts a handshake and leaves in the middle, without a word.
func vanish(l *Listener, d *Dialer) error {
	sock, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer sock.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tr := &quic.Transport{Conn: &vanishing{PacketConn: sock, leave: cancel}}
	defer tr.Close()
	if _, err := tr.Dial(ctx, l.Addr(), d.cfg.TLS, nil); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("dial of a client that vanishes: %w", err)
	}
	return nil
}

// TestFailingHandshakes: clients with a wrong protocol, without trust, or that vanish are refused, counted and logged
// with a rate limit, while established sessions and new ones work.
func TestFailingHandshakes(t *testing.T) {
	const each = 100
	log, lines := testLogger()
	l := listen(t, func(c *Config) { c.Logger = log; c.HandshakeTimeout = 6 * time.Second; c.RetryAbove = 1 << 20 })
	echo(t, l)
	good := dialer(t, nil)
	established := dial(t, good, l.Addr())
	wrongALPN := dialer(t, func(c *Config) { c.TLS.NextProtos = []string{"other/9"} })
	noTrust := dialer(t, func(c *Config) { c.TLS.RootCAs = x509.NewCertPool() })

	stop := make(chan struct{})
	sessions := make(chan error, 1)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				sessions <- nil
				return
			default:
			}
			if err := roundTrip(testContext(t), established, fmt.Sprint("message ", n)); err != nil {
				sessions <- err
				return
			}
		}
	}()

	refused := func(d *Dialer, want HandshakeFailure) error {
		_, err := d.Dial(testContext(t), l.Addr().String())
		var h *HandshakeError
		if !errors.As(err, &h) || h.Kind != want {
			return fmt.Errorf("dial: %w, want a handshake error of kind %s", err, want)
		}
		return nil
	}
	attempts := []func() error{
		func() error { return refused(wrongALPN, FailALPN) },
		func() error { return refused(noTrust, FailCertificate) },
		func() error { return vanish(l, good) },
	}
	room := make(chan struct{}, 8)
	var wg sync.WaitGroup
	for range each {
		for _, attempt := range attempts {
			room <- struct{}{}
			wg.Go(func() {
				defer func() { <-room }()
				if err := attempt(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	close(stop)
	if err := <-sessions; err != nil {
		t.Errorf("established session: %v", err)
	}
	for _, kind := range []HandshakeFailure{FailALPN, FailCertificate, FailTimeout} {
		eventually(t, fmt.Sprintf("%d failures of kind %s", each, kind), func() bool {
			return l.Stats().Failures[kind] >= each // a first datagram sent twice may count twice
		})
		if n := lines.count(kind.String()); n < 1 || n > 4 {
			t.Errorf("%d log lines for %d failures of kind %s, want one an interval", n, each, kind)
		}
	}
	if err := roundTrip(testContext(t), dial(t, good, l.Addr()), "still accepting"); err != nil {
		t.Errorf("new session: %v", err)
	}
	eventually(t, "all handshakes to be over", func() bool { return l.Stats().Handshaking == 0 })
	if s := l.Stats(); s.Accepted != 2 || s.Active != 2 {
		t.Errorf("accepted %d, active %d, want 2 and 2", s.Accepted, s.Active)
	}
}

func TestConnectionLimit(t *testing.T) {
	l := listen(t, func(c *Config) { c.MaxConns = 2 })
	d := dialer(t, nil)
	first, _ := pair(t, l, d)
	pair(t, l, d)
	third, err := d.Dial(testContext(t), l.Addr().String())
	if err == nil { // the handshake may complete on the client's side before the refusal arrives
		<-third.Context().Done()
		err = third.Err()
	}
	var a *ApplicationError
	if !errors.As(err, &a) || a.Code != CodeLimitExceeded || !a.Remote || a.Reason != "connection limit of 2 reached" {
		t.Fatalf("third connection: %v", err)
	}
	if n := l.Stats().Failures[FailLimit]; n != 1 {
		t.Errorf("%d refusals counted, want 1", n)
	}
	_ = first.CloseWithError(0, "") // always nil
	eventually(t, "room for another one", func() bool { return l.Stats().Active == 1 })
	pair(t, l, d)
}

func TestHandshakeLimit(t *testing.T) {
	l := listen(t, func(c *Config) { c.MaxHandshakes = 1; c.HandshakeTimeout = 2 * time.Second })
	d := dialer(t, nil)
	if err := vanish(l, d); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Dial(testContext(t), l.Addr().String()); !errors.Is(err, ErrRefused) {
		t.Fatalf("dial while the only handshake slot is taken: %v, want ErrRefused", err)
	}
	eventually(t, "the slot to be free again", func() bool { return l.Stats().Handshaking == 0 })
	pair(t, l, d)
}

func TestAddressProof(t *testing.T) {
	for _, always := range []bool{true, false} {
		l := listen(t, func(c *Config) {
			if always {
				c.RetryAbove = -1
			}
		})
		pair(t, l, dialer(t, nil))
		if n := l.Stats().Proofs; (n > 0) != always {
			t.Errorf("proofs asked for: %d, always: %v", n, always)
		}
	}
}

func TestStopAccepting(t *testing.T) {
	l := listen(t, nil)
	d := dialer(t, nil)
	client, server := pair(t, l, d)
	waiting := dial(t, d, l.Addr())
	eventually(t, "the second connection to be established", func() bool { return l.Stats().Accepted == 2 })

	l.StopAccepting()
	l.StopAccepting()
	if _, err := l.Accept(testContext(t)); !errors.Is(err, ErrNotAccepting) || !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept: %v, want ErrNotAccepting", err)
	}
	<-waiting.Context().Done()
	var a *ApplicationError
	if !errors.As(waiting.Err(), &a) || a.Code != CodeDraining {
		t.Errorf("connection nobody accepted: %v, want code %d", waiting.Err(), CodeDraining)
	}
	start := time.Now()
	if _, err := d.Dial(testContext(t), l.Addr().String()); !errors.Is(err, ErrRefused) {
		t.Errorf("dial: %v, want ErrRefused", err)
	}
	if took := time.Since(start); took > prompt {
		t.Errorf("refusal took %v", took)
	}
	if n := l.Stats().Failures[FailDraining]; n == 0 {
		t.Error("refusal not counted")
	}
	stream, err := client.OpenStream(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := server.AcceptStream(testContext(t)); err != nil {
		t.Errorf("established connection: %v", err)
	}
}

func TestLineLimiter(t *testing.T) {
	var l lineLimiter
	now := time.Unix(1000, 0)
	if ok, skipped := l.allow(now); !ok || skipped != 0 {
		t.Errorf("first line: %v, %d", ok, skipped)
	}
	for range 3 {
		if ok, _ := l.allow(now.Add(lineInterval - 1)); ok {
			t.Error("second line within the interval")
		}
	}
	if ok, skipped := l.allow(now.Add(lineInterval)); !ok || skipped != 3 {
		t.Errorf("line after the interval: %v, %d skipped, want 3", ok, skipped)
	}
	if ok, skipped := l.allow(now.Add(2 * lineInterval)); !ok || skipped != 0 {
		t.Errorf("next line: %v, %d skipped, want 0", ok, skipped)
	}
}
