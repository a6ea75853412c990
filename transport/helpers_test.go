package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"felix/internal/testkit"
	"felix/udp"
)

// patience bounds waits that end early when all is well; the machine may be slow.
const patience = 20 * time.Second

// prompt is the most that something may take which does not wait for a timeout: the least of those is the handshake's,
// DefaultHandshakeTimeout.
const prompt = DefaultHandshakeTimeout / 2

var (
	testIdentity *Identity
	testDir      string // of the identity
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if dir := os.Getenv(serveVariable); dir != "" {
			return serveForParent(dir)
		}
		dir, err := os.MkdirTemp("", "felix-transport-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		testDir = dir
		if testIdentity, err = LoadOrCreateIdentity(dir); err != nil {
			panic(err)
		}
		code := m.Run()
		if err := goleak.Find(); code == 0 && err != nil {
			println(err.Error())
			return 1
		}
		return code
	}())
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// envSocket is the socket that the environment asks for, so that the suite can also run with an offload switched off.
func envSocket(t testing.TB) (c udp.Config) {
	t.Helper()
	if err := c.ApplyEnv(os.LookupEnv); err != nil {
		t.Fatal(err)
	}
	return c
}

// listen starts a listener on loopback that is closed with the test.
func listen(t testing.TB, change func(*Config)) *Listener {
	t.Helper()
	return listenOn(t, "127.0.0.1:0", change)
}

func listenOn(t testing.TB, addr string, change func(*Config)) *Listener {
	t.Helper()
	c := Config{TLS: ServerTLS(testIdentity), StatelessResetKey: testIdentity.ResetKey(), Socket: envSocket(t)}
	if change != nil {
		change(&c)
	}
	l, err := Listen(addr, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close the listener: %v", err)
		}
	})
	return l
}

// dialer makes a dialer that trusts the test identity and is closed with the test.
func dialer(t testing.TB, change func(*Config)) *Dialer {
	t.Helper()
	c := Config{TLS: clientTLS(t, ClientTLSOptions{RootCAs: testIdentity.Pool()}), Socket: envSocket(t)}
	if change != nil {
		change(&c)
	}
	d, err := NewDialer(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close the dialer: %v", err)
		}
	})
	return d
}

func clientTLS(t testing.TB, o ClientTLSOptions) *tls.Config {
	t.Helper()
	c, err := ClientTLS(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func dial(t testing.TB, d *Dialer, addr net.Addr) *Conn {
	t.Helper()
	c, err := d.Dial(testContext(t), addr.String())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func accept(t testing.TB, l *Listener) *Conn {
	t.Helper()
	c, err := l.Accept(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// pair returns the two ends of a connection.
func pair(t testing.TB, l *Listener, d *Dialer) (client, server *Conn) {
	t.Helper()
	client = dial(t, d, l.Addr())
	return client, accept(t, l)
}

// echo serves every connection of a listener until the listener ends: each bidirectional stream gets back what it
// sends.
func echo(t testing.TB, l *Listener) {
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			go func() {
				for {
					s, err := c.AcceptStream(context.Background())
					if err != nil {
						return
					}
					go func() {
						_, _ = io.Copy(s, s)
						_ = s.CloseWrite()
					}()
				}
			}()
		}
	}()
}

// roundTrip sends text on a new stream of an echo connection and wants it back.
func roundTrip(ctx context.Context, c *Conn, text string) error {
	s, err := c.OpenStream(ctx)
	if err != nil {
		return err
	}
	deadline, _ := ctx.Deadline()
	if err := errors.Join(s.SetReadDeadline(deadline), s.SetWriteDeadline(deadline)); err != nil {
		return err
	}
	if _, err := s.Write([]byte(text)); err != nil {
		return err
	}
	if err := s.CloseWrite(); err != nil {
		return err
	}
	back, err := io.ReadAll(s)
	if err == nil && string(back) != text {
		err = errors.New("got something else back")
	}
	return err
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	testkit.Eventually(t, patience, what, cond)
}

// testLogger returns a logger and the number of lines it got.
func testLogger() (*slog.Logger, *countingHandler) {
	h := &countingHandler{}
	return slog.New(h), h
}
