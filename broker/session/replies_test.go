package session

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"felix/broker"
	"felix/wire"
)

// gate is a SendStream whose writes wait for permits.
type gate struct {
	SendStream
	permits chan struct{} // nil: none needed

	mu       sync.Mutex
	out      bytes.Buffer
	writes   int
	deadline time.Time
	fail     error
}

func (g *gate) Write(p []byte) (int, error) {
	if g.permits != nil {
		<-g.permits
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fail != nil {
		return 0, g.fail
	}
	g.writes++
	return g.out.Write(p)
}

func (g *gate) SetWriteDeadline(t time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deadline = t
	return nil
}

func (g *gate) ids(t *testing.T) (ids []uint64) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	fr := wire.NewFrameReader(bytes.NewReader(g.out.Bytes()), 1<<20)
	for {
		f, err := fr.Next()
		if err == io.EOF {
			return ids
		}
		if err != nil {
			t.Fatal(err)
		}
		if f.Flags == wire.FlagPublishAck {
			a, err := wire.ParsePublishAck(f.Payload())
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, a.RequestID)
			continue
		}
		m, err := wire.ParseMessage(f.Payload())
		if err != nil {
			t.Fatal(err)
		}
		switch m := m.(type) {
		case *wire.PublishOK:
			ids = append(ids, m.RequestID)
		case *wire.PublishError:
			ids = append(ids, m.RequestID)
		case *wire.CacheOK:
			ids = append(ids, m.RequestID)
		case *wire.CacheValue:
			ids = append(ids, *m.RequestID)
		}
	}
}

// queue makes a reply queue over g.
func queue(t *testing.T, g *gate, opts ...envOption) (*replies, *sync.WaitGroup) {
	t.Helper()
	e := newEnv(t, opts...)
	var wg sync.WaitGroup
	t.Cleanup(func() {
		wg.Wait()
		e.close()
	})
	return newReplies(g, e.server, &wg), &wg
}

// Outcomes become known in any order, in both encodings, at any time, from any
// goroutine; the replies go out in the order of the requests.
func TestRepliesKeepTheOrderOfRequests(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var g gate
		q, _ := queue(t, &g)
		const n = 500
		var tokens []uint64
		var pending []uint64
		var completing sync.WaitGroup
		complete := func(list []uint64) {
			completing.Go(func() {
				for _, token := range list {
					q.Complete(token, nil)
				}
			})
		}
		for i := range uint64(n) {
			switch rnd.IntN(4) {
			case 0:
				q.push(reply{kind: replyAck, id: i})
			case 1:
				q.message(&wire.CacheOK{RequestID: i})
			case 2:
				token := q.reserve(replyAck, i)
				pending, tokens = append(pending, token), append(tokens, token)
			case 3:
				token := q.reserve(replyPublish, i)
				pending, tokens = append(pending, token), append(tokens, token)
			}
			if rnd.IntN(20) == 0 {
				rnd.Shuffle(len(pending), func(i, j int) { pending[i], pending[j] = pending[j], pending[i] })
				complete(pending)
				pending = nil
			}
			if rnd.IntN(10) == 0 {
				if err := q.flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		complete(pending)
		if err := q.finish(); err != nil {
			t.Fatal(err)
		}
		completing.Wait()
		for _, token := range tokens { // late or double outcomes change nothing
			q.Complete(token, errors.New("late"))
		}
		ids := g.ids(t)
		if len(ids) != n {
			t.Fatalf("seed %d: %d replies, want %d", seed, len(ids), n)
		}
		for i, got := range ids {
			if got != uint64(i) {
				t.Fatalf("seed %d: reply %d is for request %d", seed, i, got)
			}
		}
	}
}

// The queue takes a bounded number of replies, and of bytes; then the reader
// waits.
func TestRepliesAreBounded(t *testing.T) {
	value := func(i uint64, n int) *wire.CacheValue { return valueOf("k", make([]byte, n), &i) }
	for _, tc := range []struct {
		name string
		add  func(*replies, uint64)
		most int
	}{
		{"replies", func(q *replies, i uint64) { q.push(reply{kind: replyAck, id: i}) }, 64},
		{"bytes", func(q *replies, i uint64) { q.message(value(i, 300)) }, 3},
		{"one too large", func(q *replies, i uint64) { q.message(value(i, 5000)) }, 1},
		{"error texts", func(q *replies, i uint64) {
			q.push(reply{kind: replyAck, id: i, text: strings.Repeat("x", 600)})
		}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &gate{permits: make(chan struct{})}
				e := newEnv(t, func(cfg *Config, _ *broker.Options) { cfg.ReplyQueue, cfg.ReplyQueueBytes = 64, 1000 })
				var wg sync.WaitGroup
				q := newReplies(g, e.server, &wg)
				added := 0
				var adding sync.WaitGroup
				adding.Go(func() {
					for i := range uint64(200) {
						tc.add(q, i)
						added++
					}
				})
				synctest.Wait()
				if added != tc.most {
					t.Errorf("%d replies taken, want %d", added, tc.most)
				}
				if n := e.count(ReplyQueueFull); n != 0 {
					t.Errorf("waited %d times, although the reader itself writes", n)
				}
				close(g.permits)
				adding.Wait()
				if err := q.finish(); err != nil {
					t.Fatal(err)
				}
				if n := len(g.ids(t)); n != 200 {
					t.Errorf("%d replies written", n)
				}
				e.close()
			})
		})
	}
}

// Replies that are ready together are written together.
func TestRepliesAreGathered(t *testing.T) {
	var g gate
	q, _ := queue(t, &g)
	for i := range uint64(100) {
		q.push(reply{kind: replyAck, id: i})
	}
	if err := q.flush(); err != nil {
		t.Fatal(err)
	}
	if g.writes != 1 {
		t.Errorf("%d writes", g.writes)
	}
}

// A failed write, or the end of the connection, releases whoever waits and
// drops what is queued. It is an error only if there was something to lose.
func TestRepliesFail(t *testing.T) {
	t.Run("nothing owed", func(t *testing.T) {
		q, _ := queue(t, &gate{})
		q.fail(errGone)
		if err := q.flush(); err != nil {
			t.Error(err)
		}
		if err := q.finish(); err != nil {
			t.Error("nothing was lost, but", err)
		}
		q.push(reply{kind: replyAck})
		if err := q.flush(); !errors.Is(err, errGone) {
			t.Errorf("flush: %v", err)
		}
		if err := q.finish(); !errors.Is(err, errGone) {
			t.Errorf("finish: %v", err)
		}
	})
	t.Run("owed", func(t *testing.T) {
		q, _ := queue(t, &gate{})
		token := q.reserve(replyAck, 1)
		done := make(chan error)
		go func() { done <- q.finish() }()
		q.fail(errGone)
		if err := <-done; !errors.Is(err, errGone) {
			t.Errorf("finish: %v", err)
		}
		q.Complete(token, nil)
	})
	t.Run("write fails", func(t *testing.T) {
		q, wg := queue(t, &gate{fail: os.ErrDeadlineExceeded}, func(cfg *Config, _ *broker.Options) { cfg.ReplyQueue = 2 })
		token := q.reserve(replyAck, 1)
		var adding sync.WaitGroup
		adding.Go(func() {
			for i := range uint64(50) {
				q.push(reply{kind: replyAck, id: i})
			}
		})
		q.Complete(token, nil)
		adding.Wait()
		wg.Wait()
		if err := q.flush(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("flush: %v", err)
		}
		if n := q.queued(); n != 0 {
			t.Errorf("%d replies kept", n)
		}
	})
}

// A client that sends far more than it reads is made to wait, and gets every
// ack in the end.
func TestUnreadRepliesStopTheReader(t *testing.T) {
	for _, commit := range []bool{false, true} {
		t.Run(fmt.Sprintf("commit=%v", commit), func(t *testing.T) {
			run(t, func(e *env, c *testClient) {
				const n = 20_000
				s := c.control()
				var writing sync.WaitGroup
				writing.Go(func() {
					for i := range uint64(n) {
						if i%2 == 0 {
							s.publish(&i, "x")
						} else {
							s.send(&wire.Publish{TenantID: testTenant, Namespace: testNS, Stream: topic, RequestID: &i})
						}
					}
					s.fin()
				})
				// What the broker has read, written and still owes does not change any
				// more, and it has not read everything.
				standstill := func() [3]uint64 {
					st := e.server.Stats()
					return [3]uint64{e.stream(t).Info().NextSeq, st.Counts[Replies], uint64(st.Connections[0].QueuedReplies)}
				}
				eventually(t, "broker stops reading", func() bool {
					before := standstill()
					time.Sleep(50 * time.Millisecond)
					return before[2] > 0 && standstill() == before
				})
				got := standstill()
				if got[0] == n {
					t.Error("the reader was never stopped")
				}
				if got[2] > 100 {
					t.Errorf("%d replies queued", got[2])
				}
				c2 := e.dial()
				c2.control().alive() // nobody else is held up
				c2.close()
				for i := range uint64(n) {
					if i%2 == 0 {
						s.acked(i, "")
					} else {
						expect(s, &wire.PublishOK{RequestID: i})
					}
				}
				s.ended()
				writing.Wait()
			}, func(cfg *Config, _ *broker.Options) { cfg.ReplyQueue, cfg.AckOnCommit = 100, commit })
		})
	}
}

// Acks on commit come in request order too when a later request is committed
// first, and say "publish commit timeout" when it takes too long.
func TestCommitAcks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run(t, func(e *env, c *testClient) {
			key := broker.Key{Tenant: testTenant, Namespace: testNS, Name: "other"}
			if err := e.broker.CreateStream(key, broker.StreamOptions{}); err != nil {
				t.Fatal(err)
			}
			ev, _ := c.subscribe(wire.Subscribe{})
			big := strings.Repeat("x", 600<<10)
			s := c.control()
			s.publish(id(1), big) // fills the event stream's window
			s.acked(1, "")
			synctest.Wait()
			s.publish(id(2), big) // fits the queue
			s.acked(2, "")
			s.publish(id(3), big) // overfills it: blocked
			start := time.Now()
			s.bytes(batchFrame(t, wire.PublishHeader{
				TenantID: testTenant, Namespace: testNS, Stream: "other", Acked: true, RequestID: 4, Ack: wire.AckPerBatch,
			}, "x"))
			s.send(put("k", "v", id(5), nil))
			synctest.Wait()
			if st, err := e.broker.Stream(key); err != nil || st.Info().NextSeq != 1 {
				t.Fatal("the later publish is not committed")
			}
			s.acked(3, "publish commit timeout")
			s.acked(4, "")
			expect(s, &wire.CacheOK{RequestID: 5})
			if d := time.Since(start); d != 2*time.Second {
				t.Errorf("answered after %v", d)
			}
			// The outcome that comes too late changes nothing.
			ev.take(3)
			synctest.Wait()
			s.publish(id(6), "x")
			s.acked(6, "")
			if n := e.count(CommitTimeouts); n != 1 {
				t.Errorf("%d timeouts counted", n)
			}
		}, func(cfg *Config, o *broker.Options) {
			cfg.AckOnCommit, o.SubPolicy, o.SubQueueBytes = true, broker.PolicyBlock, 700<<10
		})
	})
}

// While a publish waits for room, the acks of those before it go out.
func TestAcksDoNotWaitBehindAPublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run(t, func(e *env, c *testClient) {
			ev, _ := c.subscribe(wire.Subscribe{})
			s := c.control()
			big := strings.Repeat("x", 600<<10)
			for i := range uint64(3) {
				s.publish(&i, big)
				s.acked(i, "")
				synctest.Wait()
			}
			// The stream is stalled by its subscriber now. These fit the queue of
			// one publish, and then not.
			start := time.Now()
			s.bytes(append(publishFrame(t, id(3), "a"), append(publishFrame(t, id(4), "b"), publishFrame(t, id(5), "c")...)...))
			s.acked(3, "")
			if d := time.Since(start); d != 0 {
				t.Errorf("ack after %v", d)
			}
			s.acked(4, "publish enqueue timed out")
			if d := time.Since(start); d != 2*time.Second {
				t.Errorf("refused after %v", d)
			}
			s.acked(5, "publish enqueue timed out")
			ev.take(4)
			s.publish(id(6), "d")
			s.acked(6, "")
		}, func(_ *Config, o *broker.Options) {
			o.SubPolicy, o.SubQueueBytes, o.WorkerQueueDepth = broker.PolicyBlock, 700<<10, 2
		})
	})
}

// A client that does not take the last answer on a stream cannot hold on to it:
// the stream is reset with a code. One that is slow gets its answer.
func TestStalledRepliesAtTheEndOfAStream(t *testing.T) {
	for _, slow := range []bool{false, true} {
		t.Run(fmt.Sprintf("slow=%v", slow), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				run(t, func(e *env, c *testClient) {
					s := c.control()
					s.send(put("k", strings.Repeat("x", 3<<20), id(1), nil))
					expect(s, &wire.CacheOK{RequestID: 1})
					s.send(get("k", nil)) // 4 MiB into a window of 256 KiB
					s.fin()
					if slow {
						_ = s.s.SetReadDeadline(time.Time{})
						for read, buf := 0, make([]byte, 32<<10); ; {
							time.Sleep(9 * time.Second)
							n, err := io.ReadFull(s.s, buf)
							read += n
							if err != nil {
								if read != wire.HeaderLen+len(`{"type":"cache_value","tenant_id":"t1","namespace":"default","cache":"primary","key":"k","value":""}`)+4<<20 {
									t.Errorf("%d bytes, then %v", read, err)
								}
								break
							}
						}
						return
					}
					time.Sleep(11 * time.Second)
					_, err := io.Copy(io.Discard, s.s)
					var se *memStreamError
					if !errors.As(err, &se) || Code(se.code) != CodeStalled || !se.reset {
						t.Errorf("stream ended with %v", err)
					}
					if n := e.count(RepliesLost); n != 1 {
						t.Errorf("%d streams counted", n)
					}
					c.control().alive()
				})
			})
		})
	}
}

// A client that does not want to read replies can still publish without acks;
// the first reply it would be owed ends the stream.
func TestRepliesRefusedByTheClient(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		ev, _ := c.subscribe(wire.Subscribe{})
		s := c.control()
		s.s.CancelRead(0)
		s.publish(nil, "a")
		s.publish(nil, "b")
		ev.takePayloads("a", "b")
		s.publish(id(1), "c")
		ev.takePayloads("c")
		s.stopped(CodeNone)
		eventually(t, "stream forgotten", func() bool { return e.server.Stats().Connections[0].ControlStreams == 0 })
	})
}

// Replies to a connection that has ended are not waited for.
func TestConnectionEndsWithRepliesOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, func(cfg *Config, o *broker.Options) {
			cfg.AckOnCommit, o.SubPolicy, o.SubQueueBytes = true, broker.PolicyBlock, 100_000
			o.CommitWait = time.Hour
		})
		stuck := e.dial()
		stuck.subscribe(wire.Subscribe{})
		c := e.dial()
		s := c.control()
		for i := range uint64(40) {
			s.publish(&i, strings.Repeat("x", 64<<10))
		}
		synctest.Wait()
		if e.server.Stats().Connections[1].QueuedReplies == 0 {
			t.Fatal("nothing owed")
		}
		start := time.Now()
		c.close()
		if d := time.Since(start); d != 0 {
			t.Errorf("took %v", d)
		}
		stuck.close()
		e.close()
	})
}
