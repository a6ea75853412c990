package session

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"felix/broker"
	"felix/wire"
)

// used returns what frames and replies of all connections hold.
func (e *env) held() (frames, replies int64) {
	e.server.frames.mu.Lock()
	defer e.server.frames.mu.Unlock()
	e.server.replies.mu.Lock()
	defer e.server.replies.mu.Unlock()
	return e.server.frames.used, e.server.replies.used
}

// heap returns the bytes in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

const testFrame = 1 << 20

// smallMemory makes the bounds of memory smaller, with frames of up to 1 MiB.
func smallMemory(cfg *Config, _ *broker.Options) {
	cfg.MaxFrameBytes, cfg.ConnFrameBytes, cfg.FrameBytes = testFrame, testFrame, 4*testFrame
}

// begun starts a large publish and leaves out its last bytes.
func (s *testStream) begun(size int) (rest []byte) {
	s.t.Helper()
	b := publishFrame(s.t, id(1), strings.Repeat("x", size))
	_ = s.s.SetWriteDeadline(time.Now().Add(time.Millisecond))
	n, _ := s.s.Write(b[:len(b)-10])
	return b[n:]
}

// Streams that begin large frames and do not end them hold little, in one
// connection and in all, and are ended one after the other, with a reason.
func TestUnfinishedFramesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, smallMemory)
		var conns []*testClient
		var all []*testStream
		for range 10 {
			c := e.dial(func(l *memLink) { l.streamWindow, l.connWindow[serverEnd] = 2*testFrame, 100*testFrame })
			conns = append(conns, c)
			for range 20 {
				all = append(all, c.control())
			}
		}
		for _, s := range all {
			s.begun(testFrame - 1000)
		}
		synctest.Wait()
		// In each connection one frame over the bound, and in all of them one.
		if n, _ := e.held(); n > 5*testFrame {
			t.Errorf("%d bytes of frames are held", n)
		}
		for _, c := range conns {
			c.link.mu.Lock()
			unread := c.link.unread[serverEnd]
			c.link.mu.Unlock()
			if unread < 17*testFrame {
				t.Errorf("only %d bytes of a connection are not read", unread)
			}
		}
		for _, s := range all {
			_ = s.s.SetReadDeadline(time.Time{})
			f, err := s.frames.Next()
			if err != nil {
				t.Fatal(err)
			}
			if m, err := wire.ParseMessage(f.Payload()); err != nil || m.(*wire.Error).Message != "frame timeout" {
				t.Fatalf("answer %+v, %v", m, err)
			}
		}
		synctest.Wait()
		all[0].stopped(CodeFrameTimeout)
		if n := e.count(FrameTimeouts); n != uint64(len(all)) {
			t.Errorf("%d timeouts counted", n)
		}
		if n, _ := e.held(); n != 0 {
			t.Errorf("%d bytes are held by nobody", n)
		}
		for _, c := range conns {
			c.control().alive()
			c.close()
		}
		e.close()
	})
}

// Streams that all send large frames at once, in several connections, get all of
// them through, in whatever pieces they come.
func TestLargeFramesGetOn(t *testing.T) {
	e := newEnv(t, smallMemory, func(cfg *Config, _ *broker.Options) { cfg.FrameBytes = testFrame })
	var wg sync.WaitGroup
	var conns []*testClient
	for n := range 3 {
		c := e.dial(func(l *memLink) { l.connWindow[serverEnd] = 16 << 20 })
		conns = append(conns, c)
		for k := range 8 {
			s := c.control()
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(n), uint64(k)))
				for i := range uint64(6) {
					b := publishFrame(t, id(i), strings.Repeat("x", rng.IntN(testFrame-1000)))
					for len(b) > 0 {
						piece := min(len(b), 1+rng.IntN(200<<10))
						s.bytes(b[:piece])
						b = b[piece:]
					}
					if a := s.ack(); a.RequestID != i || a.Failed {
						t.Errorf("ack %+v", a)
					}
				}
			})
		}
	}
	wg.Wait()
	// The last frame is given back when its stream has nothing more to do.
	eventually(t, "memory given back", func() bool { n, _ := e.held(); return n == 0 })
	for _, c := range conns {
		c.close()
	}
	e.close()
}

// A frame that keeps coming is not ended, however long it takes; one that
// trickles is. The time of a frame that was completed does not end a stream.
func TestFrameTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run(t, func(e *env, c *testClient) {
			s := c.control()
			for round := range uint64(2) {
				b := publishFrame(t, id(round), strings.Repeat("x", 8<<20))
				for len(b) > 0 {
					n := min(len(b), minProgress)
					s.bytes(b[:n])
					b = b[n:]
					time.Sleep(22 * time.Second)
				}
				s.acked(round, "")
			}
			time.Sleep(time.Hour)
			s.alive()
			s.bytes(wire.AppendHeader(nil, 0, 4000)) // small enough to wait for
			time.Sleep(time.Hour)
			synctest.Wait()
			if n := e.count(FrameTimeouts); n != 0 {
				t.Fatalf("%d timeouts", n)
			}
			trickle := c.control()
			b := publishFrame(t, id(1), strings.Repeat("x", 8<<20))
			trickle.bytes(b[:4<<20])
			b = b[4<<20:]
			start := time.Now()
			for e.count(FrameTimeouts) == 0 && time.Since(start) < time.Hour {
				trickle.bytes(b[:1])
				b = b[1:]
				time.Sleep(time.Second)
			}
			if d := time.Since(start); d > 31*time.Second || d < 22*time.Second {
				t.Errorf("ended after %v", d)
			}
			expectError(trickle, "frame timeout")
			trickle.ended()
		})
	})
}

// On a unidirectional stream the limit shows in the code alone.
func TestFrameTimeLimitOnUniStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run(t, func(e *env, c *testClient) {
			good := c.control()
			uni := &testStream{t: t, s: c.link.openUni()}
			uni.send(&wire.Auth{TenantID: testTenant, Token: e.token()})
			uni.begun(100 << 10)
			time.Sleep(31 * time.Second)
			synctest.Wait()
			if code, ok := uni.s.stopped(); !ok || Code(code) != CodeFrameTimeout {
				t.Errorf("stopped %v with %v", ok, Code(code))
			}
			good.alive()
		})
	})
}

// Streams that wait for memory do not hold up a drain, nor the end of their
// connection.
func TestStreamsThatWaitForMemoryEnd(t *testing.T) {
	for _, drain := range []bool{false, true} {
		t.Run(fmt.Sprintf("drain %v", drain), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t, smallMemory, func(cfg *Config, _ *broker.Options) { cfg.DrainGrace = 2 * time.Second })
				c := e.dial()
				for range 10 {
					c.control().begun(testFrame - 1000)
				}
				synctest.Wait()
				start := time.Now()
				if drain {
					_ = e.server.Drain(t.Context()) // cuts streams short, and says so
					<-c.served
				} else {
					c.close()
				}
				if d := time.Since(start); d > 10*time.Second {
					t.Errorf("took %v", d)
				}
				if n, _ := e.held(); n != 0 {
					t.Errorf("%d bytes are held by nobody", n)
				}
				e.close()
			})
		})
	}
}

// JSON batches of very many empty items cost far more than their bytes, so they
// are decoded one after the other.
func TestJSONBatchesAreCharged(t *testing.T) {
	e := newEnv(t, smallMemory)
	c := e.dial()
	items := strings.TrimSuffix(strings.Repeat(`"",`, 300_000), ",")
	body := `{"type":"publish_batch","tenant_id":"t1","namespace":"default","stream":"conformance","request_id":1,"payloads":[` + items + `]}`
	frame := append(wire.AppendHeader(nil, 0, len(body)), body...)
	var peak int64
	stop, sampled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sampled)
		for {
			select {
			case <-stop:
				return
			default:
				n, _ := e.held()
				peak = max(peak, n)
				time.Sleep(50 * time.Microsecond)
			}
		}
	}()
	var wg sync.WaitGroup
	for range 10 {
		s := c.control()
		wg.Go(func() {
			s.bytes(frame)
			if m, ok := s.message().(*wire.PublishOK); !ok || m.RequestID != 1 {
				t.Errorf("answer %+v", m)
			}
		})
	}
	wg.Wait()
	close(stop)
	<-sampled
	one := int64(2*len(body) + 24*300_000)
	if peak < one || peak > one+4*testFrame {
		t.Errorf("up to %d bytes were charged, one takes %d", peak, one)
	}
	c.close()
	e.close()
}

// Cache values that a client asks for on many streams and does not read cost
// little, and arrive whole when it does.
func TestUnreadCacheValues(t *testing.T) {
	e := newEnv(t, func(cfg *Config, _ *broker.Options) { cfg.ConnReplyBytes = 4 << 20 })
	c := e.dial(func(l *memLink) { l.streamWindow, l.connWindow[clientEnd] = 64<<10, 64<<20 })
	value := bytes.Repeat([]byte("0123456789abcde"), 1<<20/15)
	cache, err := e.broker.Cache(broker.Key{Tenant: testTenant, Namespace: testNS, Name: testCache})
	if err != nil {
		t.Fatal(err)
	}
	put := func() {
		if err := cache.Put("k", bytes.Clone(value), nil); err != nil {
			t.Fatal(err)
		}
	}
	put()
	const streams = 40
	var all []*testStream
	for range streams {
		all = append(all, c.control())
	}
	before := heap()
	for i, get := range all {
		get.send(&wire.CacheGet{TenantID: testTenant, Namespace: testNS, Cache: testCache, Key: "k", RequestID: id(2)})
		eventually(t, "written as far as it goes", func() bool {
			c.link.mu.Lock()
			defer c.link.mu.Unlock()
			_, replies := e.held()
			return len(get.s.in.buf) == 64<<10 || i > 0 && replies > 3<<20
		})
		put() // the one before is held by the reply alone
	}
	if n := heap() - before; n > 24<<20 {
		t.Errorf("%d MiB are in use", n>>20)
	}
	if _, n := e.held(); n > 6<<20 {
		t.Errorf("%d bytes of replies are held", n)
	}
	// All at once: the value that is next in line for memory is not known.
	var wg sync.WaitGroup
	for _, get := range all {
		wg.Go(func() {
			if m, ok := get.message().(*wire.CacheValue); !ok || !bytes.Equal(m.Value, value) {
				t.Errorf("a value of %d bytes did not arrive whole", len(value))
				return
			}
			get.alive()
		})
	}
	wg.Wait()
	if _, n := e.held(); n != 0 {
		t.Errorf("%d bytes are held by nobody", n)
	}
	c.close()
	e.close()
}

// The queue of memory never exceeds its bounds but by one hold of each share and
// one of all, and everybody gets on.
func TestMemoryGetsOn(t *testing.T) {
	m := newMemory(100)
	var wg sync.WaitGroup
	for range 5 {
		sh := m.share(40)
		for k := range 8 {
			wg.Go(func() {
				h := hold{share: sh}
				rng := rand.New(rand.NewPCG(1, uint64(k)))
				for range 200 {
					for range 4 {
						if !h.take(1+rng.Int64N(40), nil, nil, nil) {
							t.Error("gave up")
						}
						m.mu.Lock()
						if m.used > 100+160 || sh.used > 40+160 {
							t.Errorf("%d in all, %d in a share", m.used, sh.used)
						}
						m.mu.Unlock()
						runtime.Gosched()
					}
					h.giveAll()
				}
			})
		}
	}
	wg.Wait()
	if m.used != 0 || m.over != nil || m.queued.Len() != 0 {
		t.Errorf("%d used, over %v, %d waiting", m.used, m.over, m.queued.Len())
	}
}

// A claim that is given up lets those behind it have what there is.
func TestMemoryGivenUpClaim(t *testing.T) {
	m := newMemory(1000)
	sh := m.share(100)
	a, b, c := hold{share: sh}, hold{share: sh}, hold{share: sh}
	a.take(90, nil, nil, nil)
	a.take(20, nil, nil, nil) // over the bound
	a.give(60)
	stop, waiting := make(chan struct{}), make(chan struct{}, 2)
	done := make(chan bool, 2)
	go func() { done <- b.take(60, func() { waiting <- struct{}{} }, nil, stop) }()
	<-waiting
	for queued := 0; queued != 1; runtime.Gosched() {
		m.mu.Lock()
		queued = sh.waiting.Len()
		m.mu.Unlock()
	}
	go func() { done <- c.take(30, func() { waiting <- struct{}{} }, nil, nil) }()
	<-waiting
	close(stop)
	if first, second := <-done, <-done; first == second {
		t.Errorf("taken: %v, %v", first, second)
	}
	a.giveAll()
	c.giveAll()
	if m.used != 0 || m.queued.Len() != 0 {
		t.Errorf("%d used, %d waiting", m.used, m.queued.Len())
	}
}
