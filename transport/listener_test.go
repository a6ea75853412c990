package transport

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"
)

// TestManyAtOnce: of clients that all come at the same moment, all get in, though nobody calls Accept yet. The stock
// engine may refuse some when the host is slow, and tells them.
func TestManyAtOnce(t *testing.T) {
	const clients = 150
	patient := func(c *Config) { c.HandshakeTimeout = 4 * patience }
	l := listen(t, patient)
	d := dialer(t, patient)
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	conns := make([]*Conn, clients)
	var wg sync.WaitGroup
	for i := range conns {
		wg.Go(func() {
			var err error
			if conns[i], err = d.Dial(ctx, l.Addr().String()); err != nil && (Engine().Tuned || !errors.Is(err, ErrRefused)) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var s ListenerStats
	eventually(t, "all attempts to be settled", func() bool {
		s = l.Stats()
		return s.Accepted+s.Failures[FailLimit] >= clients // handshakes sent twice may be left over
	})
	if refused := s.Failures[FailLimit]; refused > 0 {
		t.Logf("%d refused", refused)
		if Engine().Tuned {
			t.Error("the tuned engine refused some")
		}
	}
	for range s.Accepted {
		accept(t, l)
	}
	for _, c := range conns {
		if c != nil && c.Err() != nil && !errors.Is(c.Err(), ErrRefused) {
			t.Errorf("connection: %v", c.Err())
		}
	}
}

// TestAcceptEnds: Accept ends with its context, and one that waits ends with StopAccepting.
func TestAcceptEnds(t *testing.T) {
	l := listen(t, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := l.Accept(ctx); err != context.DeadlineExceeded {
		t.Errorf("accept: %v", err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := l.Accept(context.Background())
		waiting <- err
	}()
	l.StopAccepting()
	if err := <-waiting; err != ErrNotAccepting {
		t.Errorf("accept: %v, want ErrNotAccepting", err)
	}
}

// TestAddressInUse: a second listener on a port is an error, and takes nothing from the first one.
func TestAddressInUse(t *testing.T) {
	l := listen(t, nil)
	if other, err := Listen(l.Addr().String(), Config{TLS: ServerTLS(testIdentity)}); err == nil {
		other.Close()
		t.Error("two listeners on one port")
	}
	for _, addr := range []string{"", "127.0.0.1", "127.0.0.1:no-such-port-name"} {
		if other, err := Listen(addr, Config{TLS: ServerTLS(testIdentity)}); err == nil {
			other.Close()
			t.Errorf("listen on %q", addr)
		}
	}
	if l.Addr().(*net.UDPAddr).Port == 0 {
		t.Error("no port")
	}
	pair(t, l, dialer(t, nil))
}
