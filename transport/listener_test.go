package transport

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// TestManyAtOnce: clients that all come at the same moment all get in, though nobody calls Accept yet.
func TestManyAtOnce(t *testing.T) {
	const clients = 300
	l := listen(t, func(c *Config) { c.HandshakeTimeout = 2 * patience })
	d := dialer(t, func(c *Config) { c.HandshakeTimeout = 2 * patience })
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			if _, err := d.Dial(ctx, l.Addr().String()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for range clients {
		accept(t, l)
	}
	if s := l.Stats(); s.Active != clients || s.Accepted != clients {
		t.Errorf("active %d, accepted %d, want %d", s.Active, s.Accepted, clients)
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
