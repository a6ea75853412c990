package session

import (
	"bytes"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"felix/broker"
	"felix/wire"
)

// mutate returns frame with a few bytes changed, dropped, added or repeated.
func mutate(rnd *rand.Rand, frame []byte) []byte {
	b := bytes.Clone(frame)
	for range 1 + rnd.IntN(4) {
		if len(b) == 0 {
			return b
		}
		at := rnd.IntN(len(b))
		switch rnd.IntN(6) {
		case 0:
			b[at] ^= 1 << rnd.IntN(8)
		case 1:
			b[at] = byte(rnd.Uint32())
		case 2:
			b = b[:at]
		case 3:
			b = append(b, b[at:]...)
		case 4: // a length in the header, often a lie
			if len(b) >= wire.HeaderLen {
				b[8+rnd.IntN(4)] = byte(rnd.Uint32())
			}
		case 5: // flags
			if len(b) >= wire.HeaderLen {
				b[6+rnd.IntN(2)] = byte(rnd.Uint32())
			}
		}
	}
	return b
}

// Thousands of mutated frames, on authenticated and fresh streams of both kinds,
// leave the server serving, without goroutines or much memory held.
func TestMutatedFrames(t *testing.T) {
	const frames, workers = 10_000, 4
	e := newEnv(t, func(cfg *Config, o *broker.Options) {
		cfg.LingerTimeout, cfg.MaxFrameBytes = time.Millisecond, 1<<20
		o.AutoCreate = true
	})
	var seeds [][]byte
	for _, v := range loadVectors(t) {
		raw, err := hex.DecodeString(v.FrameHex)
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, raw)
	}
	auth, err := wire.AppendMessageFrame(nil, &wire.Auth{TenantID: testTenant, Token: e.token(), ClientFlags: flags(63)})
	if err != nil {
		t.Fatal(err)
	}
	seeds = append(seeds, auth, publishFrame(t, id(1), "x", "y"))

	var working sync.WaitGroup
	for n := range workers {
		working.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(n), 2))
			for sent := 0; sent < frames/workers; {
				c := e.dial()
				for range 20 {
					s := c.link.openUni()
					if rnd.IntN(3) > 0 {
						s = c.link.openStream()
					}
					_ = s.SetWriteDeadline(time.Now().Add(patience))
					var discarding sync.WaitGroup
					if s.in != nil {
						discarding.Go(func() { _, _ = io.Copy(io.Discard, s) })
					}
					if rnd.IntN(4) > 0 {
						_, _ = s.Write(auth) // the server may have ended the stream, here and below
					}
					for range 1 + rnd.IntN(8) {
						_, _ = s.Write(mutate(rnd, seeds[rnd.IntN(len(seeds))]))
						sent++
					}
					if s.CloseWrite() != nil {
						s.CancelWrite(0)
					}
					discarding.Wait()
				}
				c.close()
			}
		})
	}
	working.Wait()
	c := e.dial()
	ev, _ := c.subscribe(wire.Subscribe{})
	c.control().alive()
	ev.takePayloads("alive")
	c.close()
	if n := len(e.server.Stats().Connections); n != 0 {
		t.Errorf("%d connections left", n)
	}
	st := e.server.Stats().Counts
	for _, n := range []Counter{AuthOK, AuthFailed, AuthMissing, UnsupportedFlags, MalformedFrames, OversizedFrames, UnexpectedMessages, Replies} {
		if st[n] == 0 {
			t.Errorf("%s is 0: the mutations do not reach far", n.Name())
		}
	}
	e.close()
}

// A header that promises much, and a count that does, cost no memory.
func TestLiesCostNoMemory(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range 64 {
			s := c.control()
			s.bytes(append(wire.AppendHeader(nil, wire.FlagPublishBatch, wire.DefaultMaxFrameBytes), "few bytes"...))
			bomb := "\x00\x02t1\x00\x07default\x00\x0bconformance\xff\xff\xff\xff"
			b := c.control()
			b.bytes(append(wire.AppendHeader(nil, wire.FlagPublishBatch, len(bomb)), bomb...))
			b.ended()
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 16<<20 {
			t.Errorf("%d bytes held for 64 frames that did not come", held)
		}
		c.control().alive()
	})
}
