package client

import (
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"felix/wire"
)

// signs returns the probes that the broker has received.
func (b *fakeBroker) signs() [][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.probes)
}

// A connection on which nothing arrives is asked for a sign of life, by what an original client sends for it; one that is
// busy is not.
func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker("s")
		h := start(t, b, func(c *Config) { c.ProbeInterval = 5 * time.Second })
		s := subscribe(t, h, "s")
		for range 6 { // half a minute of traffic, none of it from us
			time.Sleep(4 * time.Second)
			b.emit("s", "x")
			read(t, s, 1)
		}
		synctest.Wait()
		if n := len(b.signs()); n != 0 {
			t.Errorf("%d probes on a busy connection", n)
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if n := len(b.signs()); n < 5 || n > 6 || h.Stats().Probes != uint64(n) {
			t.Errorf("%d probes in half a minute of silence", n)
		}
		for _, f := range splitFrames(t, b.signs()[0]) {
			var m map[string]any
			if err := json.Unmarshal(f.payload, &m); err != nil || len(m) != 3 || m["type"] != "auth" ||
				m["tenant_id"] != "t1" || m["token"] != "secret" {
				t.Errorf("probe %v, %v", m, err)
			}
		}
		if n := len(splitFrames(t, b.signs()[0])); n != 1 {
			t.Errorf("a probe of %d frames", n)
		}
	})
}

func TestProbeOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker("s")
		start(t, b, func(c *Config) { c.ProbeInterval = -1 })
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := len(b.signs()); n != 0 {
			t.Errorf("%d probes", n)
		}
	})
}

// A broker that has forgotten one connection has forgotten all: the quiet ones are asked at once.
func TestProbeAfterReset(t *testing.T) {
	b := newFakeBroker("s")
	h := start(t, b, func(c *Config) { c.ProbeInterval = -1; c.EventConns = 3 })
	if err := h.Publish(patient(t), "s", nil); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		subscribe(t, h, "s")
	}
	h.net.mu.Lock()
	conns := h.net.conns
	h.net.mu.Unlock()
	_ = conns[3].CloseWithError(wire.ShutdownCode, wire.ShutdownReason) // an orderly end says nothing about the others
	waitFor(t, func() bool { return h.Stats().ConnectionsLost == 1 })
	if n := h.Stats().Probes; n != 0 {
		t.Errorf("%d probes", n)
	}
	conns[0].lose()
	waitFor(t, func() bool { return len(b.signs()) == 2 })
	if n := h.Stats().Probes; n != 2 {
		t.Errorf("%d probes", n)
	}
}
