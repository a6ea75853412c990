package session

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"felix/broker"
	"felix/wire"
)

// recorder is a SendStream that keeps every write as it came.
type recorder struct {
	SendStream
	writes [][]byte
}

func (r *recorder) Write(p []byte) (int, error) {
	r.writes = append(r.writes, bytes.Clone(p))
	return len(p), nil
}

func (r *recorder) frames(t *testing.T) []wire.Frame {
	t.Helper()
	var out []wire.Frame
	fr := wire.NewFrameReader(bytes.NewReader(bytes.Join(r.writes, nil)), wire.DefaultMaxFrameBytes)
	for {
		f, err := fr.Next()
		if err != nil {
			return out
		}
		out = append(out, f)
	}
}

// delivery makes one of payloads of the given sizes.
func delivery(t testing.TB, first uint64, sizes ...int) broker.Delivery {
	t.Helper()
	payloads := make([][]byte, len(sizes))
	d := broker.Delivery{Count: len(sizes), FirstSeq: first}
	for i, n := range sizes {
		payloads[i] = bytes.Repeat([]byte{byte('a' + (first+uint64(i))%26)}, n)
		d.Bytes += n
	}
	frame, err := wire.AppendSharedEventBatch(nil, nil, payloads)
	if err != nil {
		t.Fatal(err)
	}
	d.Frame = frame
	return d
}

// What frames, and what writes, queued events become.
func TestFormingFrames(t *testing.T) {
	plain, offsets, owned := layout{}, layout{offsets: true}, layout{owned: true, subID: 7, offsets: true}
	type frame struct {
		flags wire.Flags
		base  uint64
		count int
	}
	for _, tc := range []struct {
		name      string
		layout    layout
		in        []broker.Delivery
		want      []frame
		writes    int
		maxEvents int
		maxBytes  int
	}{
		{"nothing", plain, nil, nil, 0, 0, 0},
		{"single events merge", plain, []broker.Delivery{delivery(t, 0, 1), delivery(t, 1, 0), delivery(t, 2, 3)},
			[]frame{{4, 0, 3}}, 1, 0, 0},
		{"batches stay as they are", plain, []broker.Delivery{delivery(t, 0, 1), delivery(t, 1, 1, 1), delivery(t, 3, 1, 1), delivery(t, 5, 1)},
			[]frame{{4, 0, 1}, {4, 0, 2}, {4, 0, 2}, {4, 0, 1}}, 1, 0, 0},
		{"event limit", plain, []broker.Delivery{delivery(t, 0, 1), delivery(t, 1, 1), delivery(t, 2, 1)},
			[]frame{{4, 0, 2}, {4, 0, 1}}, 1, 2, 0},
		{"byte limit", plain, []broker.Delivery{delivery(t, 0, 60), delivery(t, 1, 40), delivery(t, 2, 1)},
			[]frame{{4, 0, 2}, {4, 0, 1}}, 1, 0, 100},
		{"over the byte limit alone", plain, []broker.Delivery{delivery(t, 0, 300), delivery(t, 1, 1)},
			[]frame{{4, 0, 1}, {4, 0, 1}}, 1, 0, 100},
		{"gap without offsets", plain, []broker.Delivery{delivery(t, 0, 1), delivery(t, 9, 1)}, []frame{{4, 0, 2}}, 1, 0, 0},
		{"gap with offsets", offsets, []broker.Delivery{delivery(t, 0, 1), delivery(t, 1, 1), delivery(t, 9, 1)},
			[]frame{{0x24, 0, 2}, {0x24, 9, 1}}, 1, 0, 0},
		{"large ones uncopied", plain, []broker.Delivery{delivery(t, 0, 1), delivery(t, 1, 20_000), delivery(t, 2, 1), delivery(t, 3, 30_000, 30_000)},
			[]frame{{4, 0, 1}, {4, 0, 1}, {4, 0, 1}, {4, 0, 2}}, 4, 0, 0},
		{"large with offsets", offsets, []broker.Delivery{delivery(t, 5, 20_000, 1)}, []frame{{0x24, 5, 2}}, 2, 0, 0},
		{"writes are bounded", plain, []broker.Delivery{
			delivery(t, 0, 8_000, 8_000), delivery(t, 2, 8_000, 8_000), delivery(t, 4, 8_000, 8_000), delivery(t, 6, 8_000, 8_000), delivery(t, 8, 8_000, 8_000),
		}, []frame{{4, 0, 2}, {4, 0, 2}, {4, 0, 2}, {4, 0, 2}, {4, 0, 2}}, 2, 0, 0},
		{"replay", owned, []broker.Delivery{delivery(t, 3, 1), delivery(t, 4, 1), delivery(t, 5, 1, 1)},
			[]frame{{0x22, 3, 2}, {0x22, 5, 2}}, 1, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := newEnv(t, func(_ *Config, o *broker.Options) {
				o.EventBatchMaxEvents, o.EventBatchMaxBytes = tc.maxEvents, tc.maxBytes
			})
			defer e.close()
			var r recorder
			var w eventWriter
			w.init(&r, e.server)
			var payloads [][]byte
			for _, d := range tc.in {
				b, err := wire.ParseEventBatch(wire.FlagEventBatchShared, d.Frame[wire.HeaderLen:])
				if err != nil {
					t.Fatal(err)
				}
				for p := range b.Items.All() {
					payloads = append(payloads, p)
				}
			}
			if err := w.write(tc.layout, tc.in); err != nil {
				t.Fatal(err)
			}
			if err := w.flush(); err != nil {
				t.Fatal(err)
			}
			var got []frame
			var seen [][]byte
			for _, f := range r.frames(t) {
				b, err := wire.ParseEventBatch(f.Flags, f.Payload())
				if err != nil {
					t.Fatal(err)
				}
				if !b.Shared && b.SubscriptionID != 7 {
					t.Errorf("subscription %d", b.SubscriptionID)
				}
				got = append(got, frame{f.Flags, b.BaseOffset, b.Items.Len()})
				for p := range b.Items.All() {
					seen = append(seen, p)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(tc.want) {
				t.Errorf("frames %v, want %v", got, tc.want)
			}
			if !bytes.Equal(bytes.Join(seen, []byte{0}), bytes.Join(payloads, []byte{0})) {
				t.Error("payloads differ")
			}
			if len(r.writes) != tc.writes {
				t.Errorf("%d writes, want %d", len(r.writes), tc.writes)
			}
			if n := w.events.Load(); n != uint64(len(payloads)) {
				t.Errorf("%d events counted", n)
			}
			if n := w.frames.Load(); n != uint64(len(tc.want)) {
				t.Errorf("%d frames counted", n)
			}
		})
	}
}

// A large frame is written from the memory that all subscribers share.
func TestLargeFramesAreNotCopied(t *testing.T) {
	e := newEnv(t)
	defer e.close()
	var w eventWriter
	d := delivery(t, 0, 100_000)
	var same bool
	w.init(writerFunc(func(p []byte) { same = same || &p[0] == &d.Frame[0] }), e.server)
	if err := w.write(layout{}, []broker.Delivery{d}); err != nil {
		t.Fatal(err)
	}
	if !same {
		t.Error("copied")
	}
}

type recorderFunc struct {
	SendStream
	f func([]byte)
}

func (r recorderFunc) Write(p []byte) (int, error) {
	r.f(p)
	return len(p), nil
}

func writerFunc(f func([]byte)) SendStream { return recorderFunc{f: f} }

// Replay carries up to 16 bytes that a publish frame did not. A payload that
// just fitted its publish frame is replayed in a smaller layout.
func TestReplayStaysWithinTheFrameLimit(t *testing.T) {
	const limit = 4096
	key := broker.Key{Tenant: "t", Namespace: "n", Name: "s"}
	for _, size := range []int{limit - 24, limit - 23, limit - 17} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			run(t, func(e *env, c *testClient) {
				if err := e.broker.CreateStream(key, broker.StreamOptions{}); err != nil {
					t.Fatal(err)
				}
				s := c.controlOf("t")
				h := wire.PublishHeader{TenantID: "t", Namespace: "n", Stream: "s"}
				f := batchFrame(t, h, strings.Repeat("x", size))
				if n := len(f) - wire.HeaderLen; n > limit {
					t.Fatalf("publish of %d bytes", n)
				}
				s.bytes(f)
				eventually(t, "published", func() bool {
					st, err := e.broker.Stream(key)
					return err == nil && st.Info().NextSeq == 1
				})
				s.send(&wire.Subscribe{TenantID: "t", Namespace: "n", Stream: "s", Start: earliest})
				s.message()
				ev, _ := c.events()
				got := ev.frame()
				if n := len(got.Payload()); n > limit {
					t.Errorf("frame of %d bytes, flags %#x", n, got.Flags)
				}
				b, err := wire.ParseEventBatch(got.Flags, got.Payload())
				if err != nil || b.Items.Bytes() != size {
					t.Errorf("replayed %+v, error %v", b, err)
				}
			}, func(cfg *Config, _ *broker.Options) { cfg.MaxFrameBytes = limit })
		})
	}
}

// EventBatchMaxDelay makes single events wait for company, and no longer. The
// default does not wait.
func TestEventBatchDelay(t *testing.T) {
	for _, delay := range []time.Duration{0, 10 * time.Millisecond} {
		t.Run(delay.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				run(t, func(e *env, c *testClient) {
					ev, _ := c.subscribe(wire.Subscribe{})
					s := c.control()
					start := time.Now()
					want := "1@0 1@4 2@20 1@40 "
					if delay > 0 {
						// A batch of two is complete as it is.
						want = "2@10 2@20 1@50 "
					}
					got := ""
					var reading sync.WaitGroup
					reading.Go(func() {
						for range strings.Count(want, "@") {
							f := ev.frame()
							got += fmt.Sprintf("%d@%d ", binary.BigEndian.Uint32(f.Payload()), time.Since(start).Milliseconds())
						}
					})
					// Two together, one 4 ms later, a batch at 20 ms, one at 40 ms.
					s.publish(id(1), "a")
					s.acked(1, "")
					time.Sleep(4 * time.Millisecond)
					s.publish(id(2), "b")
					time.Sleep(16 * time.Millisecond)
					s.publish(id(3), "c", "d")
					time.Sleep(20 * time.Millisecond)
					s.publish(id(4), "e")
					reading.Wait()
					if got != want {
						t.Errorf("frames %q, want %q", got, want)
					}
				}, func(cfg *Config, _ *broker.Options) { cfg.EventBatchMaxDelay = delay })
			})
		})
	}
}

// A subscription that ends while events wait for company still writes them.
func TestEventBatchDelayAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run(t, func(e *env, c *testClient) {
			ev, _ := c.subscribe(wire.Subscribe{})
			c.control().alive()
			synctest.Wait()
			e.broker.DeleteStream(broker.Key{Tenant: testTenant, Namespace: testNS, Name: topic})
			ev.takePayloads("alive")
			ev.ended()
		}, func(cfg *Config, _ *broker.Options) { cfg.EventBatchMaxDelay = time.Hour })
	})
}

// A full frame does not wait.
func TestEventBatchDelayEndsWithTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run(t, func(e *env, c *testClient) {
			ev, _ := c.subscribe(wire.Subscribe{})
			s := c.control()
			s.publish(nil, "a")
			s.publish(nil, "b")
			s.publish(nil, "c")
			start := time.Now()
			if f := ev.frame(); binary.BigEndian.Uint32(f.Payload()) != 3 || time.Since(start) != 0 {
				t.Errorf("frame %q after %v", f.Payload(), time.Since(start))
			}
		}, func(cfg *Config, o *broker.Options) { cfg.EventBatchMaxDelay, o.EventBatchMaxEvents = time.Hour, 3 })
	})
}
