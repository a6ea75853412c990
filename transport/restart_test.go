package transport

import (
	"errors"
	"net"
	"testing"
	"time"
)

// crash ends a listener like SIGKILL would: no peer is told anything.
func crash(t *testing.T, l *Listener) {
	t.Helper()
	if err := l.tr.close(); err != nil {
		t.Fatal(err)
	}
}

// busy writes to the peer as a publisher does, until the connection ends.
func busy(t *testing.T, c *Conn) <-chan error {
	s, err := c.OpenStream(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := s.Write(make([]byte, 256)); err != nil {
				ended <- err
				return
			}
			select {
			case <-c.Context().Done():
				ended <- c.Err()
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return ended
}

// TestRestartIsNoticed: a broker is killed and comes back half a second later; with its old reset key busy clients
// notice within a second of its return, with a new one they do not.
func TestRestartIsNoticed(t *testing.T) {
	const down = 500 * time.Millisecond
	for _, sameKey := range []bool{true, false} {
		l := listen(t, nil)
		addr := l.Addr().(*net.UDPAddr)
		d := dialer(t, nil)
		client, _ := pair(t, l, d)
		ended := busy(t, client)
		crash(t, l)
		time.Sleep(down) // the time that the broker is away is the point
		listenOn(t, addr.String(), func(c *Config) {
			if !sameKey {
				c.StatelessResetKey = &[32]byte{1}
			}
		})
		back := time.Now()
		select {
		case err := <-ended:
			if !sameKey {
				t.Errorf("noticed with another reset key: %v", err)
			} else if !errors.Is(err, ErrStatelessReset) || !errors.Is(err, net.ErrClosed) {
				t.Errorf("connection ended with %v, want ErrStatelessReset", err)
			}
			t.Logf("noticed %v after the return", time.Since(back))
		case <-time.After(time.Second):
			if sameKey {
				t.Error("not noticed within a second")
			}
		}
		if _, err := d.Dial(testContext(t), addr.String()); err != nil {
			t.Errorf("dial after the restart: %v", err)
		}
	}
}

// TestRestartIsNoticedWhenQuiet: a client that has nothing to send notices a restarted broker with its next keep-alive.
// The stock engine sends no stateless resets for packets as small as keep-alives: there it takes the idle timeout.
func TestRestartIsNoticedWhenQuiet(t *testing.T) {
	l := listen(t, func(c *Config) { c.KeepAlive = -1 })
	addr := l.Addr().String()
	client, _ := pair(t, l, dialer(t, func(c *Config) { c.KeepAlive = 100 * time.Millisecond; c.IdleTimeout = 2 * time.Second }))
	crash(t, l)
	listenOn(t, addr, nil)
	<-client.Context().Done()
	want := ErrIdleTimeout
	if Engine().Tuned {
		want = ErrStatelessReset
	}
	if !errors.Is(client.Err(), want) {
		t.Errorf("connection ended with %v, want %v", client.Err(), want)
	}
}
