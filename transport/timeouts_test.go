package transport

import (
	"errors"
	"testing"
	"time"
)

// TestKeepAlive: a quiet connection outlives its idle timeout with keep-alives, and only with them.
func TestKeepAlive(t *testing.T) {
	const idle = 600 * time.Millisecond
	for _, keepAlive := range []time.Duration{50 * time.Millisecond, -1} {
		l := listen(t, func(c *Config) { c.KeepAlive = -1 })
		d := dialer(t, func(c *Config) { c.IdleTimeout = idle; c.KeepAlive = keepAlive })
		client, _ := pair(t, l, d)
		select {
		case <-client.Context().Done():
			if keepAlive > 0 {
				t.Errorf("ended with keep-alives: %v", client.Err())
			}
			if !errors.Is(client.Err(), ErrIdleTimeout) {
				t.Errorf("ended with %v, want ErrIdleTimeout", client.Err())
			}
		case <-time.After(5 * idle):
			if keepAlive < 0 {
				t.Error("a quiet connection without keep-alives outlived its idle timeout")
			}
		}
	}
}

func TestConfigDefaults(t *testing.T) {
	tls := ServerTLS(testIdentity)
	c, err := Config{TLS: tls}.withDefaults(listenerWindows)
	if err != nil {
		t.Fatal(err)
	}
	if c.KeepAlive != 5*time.Second || c.IdleTimeout != 30*time.Second || c.HandshakeTimeout != 10*time.Second {
		t.Errorf("times: %v, %v, %v", c.KeepAlive, c.IdleTimeout, c.HandshakeTimeout)
	}
	if c.MaxIncomingStreams < 1024 || c.MaxIncomingUniStreams != 16384 {
		t.Errorf("credits: %d, %d", c.MaxIncomingStreams, c.MaxIncomingUniStreams)
	}
	if c.StreamWindow != listenerWindows.stream || c.ConnWindow != listenerWindows.conn {
		t.Errorf("windows: %v, %v", c.StreamWindow, c.ConnWindow)
	}
	w := Window{Initial: 1 << 30}.withDefault(listenerWindows.stream)
	if w.Max != 1<<30 {
		t.Errorf("maximum %d is below the initial window", w.Max)
	}
	w = Window{Max: 1 << 10}.withDefault(listenerWindows.stream)
	if w != (Window{Initial: 1 << 10, Max: 1 << 10}) {
		t.Errorf("initial window is beyond the maximum: %v", w)
	}
	for what, bad := range map[string]Config{
		"no TLS":         {},
		"small packets":  {TLS: tls, InitialPacketSize: MinPacketSize - 1},
		"small loopback": {TLS: tls, LoopbackPacketSize: MinPacketSize - 1},
		"idle timeout":   {TLS: tls, IdleTimeout: -1},
		"handshake":      {TLS: tls, HandshakeTimeout: -1},
	} {
		if _, err := Listen("127.0.0.1:0", bad); err == nil {
			t.Errorf("%s: Listen took it", what)
		}
		if _, err := NewDialer(bad); err == nil {
			t.Errorf("%s: NewDialer took it", what)
		}
	}
}
