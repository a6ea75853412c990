package client

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// tap records what the client writes to each control stream, in the order of their opening.
type tap struct {
	mu      sync.Mutex
	streams []*tapStream
}

type tapConn struct {
	serverConn
	tap *tap
}

type tapStream struct {
	stream
	tap   *tap
	bytes []byte
}

func (c *tapConn) AcceptStream(ctx context.Context) (stream, error) {
	st, err := c.serverConn.AcceptStream(ctx)
	if err != nil {
		return nil, err
	}
	s := &tapStream{stream: st, tap: c.tap}
	c.tap.mu.Lock()
	defer c.tap.mu.Unlock()
	c.tap.streams = append(c.tap.streams, s)
	return s, nil
}

func (s *tapStream) Read(b []byte) (int, error) {
	n, err := s.stream.Read(b)
	s.tap.mu.Lock()
	defer s.tap.mu.Unlock()
	s.bytes = append(s.bytes, b[:n]...)
	return n, err
}

func (t *tap) all() (streams [][]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.streams {
		streams = append(streams, slices.Clone(s.bytes))
	}
	return streams
}

// seenFrame is a frame as it stood on the wire.
type seenFrame struct {
	flags   uint16
	payload []byte
	raw     []byte
}

// splitFrames reads the protocol's envelope with nothing but its description: magic, version, flags, length, payload.
func splitFrames(t *testing.T, b []byte) (frames []seenFrame) {
	t.Helper()
	for len(b) > 0 {
		if len(b) < 12 || string(b[:4]) != "FLX1" || binary.BigEndian.Uint16(b[4:]) != 1 {
			t.Fatalf("not a frame: %x", b[:min(len(b), 32)])
		}
		n := 12 + int(binary.BigEndian.Uint32(b[8:]))
		if n > len(b) {
			t.Fatalf("a frame of %d bytes in %d", n, len(b))
		}
		frames = append(frames, seenFrame{binary.BigEndian.Uint16(b[6:]), b[12:n], b[:n]})
		b = b[n:]
	}
	return frames
}

// describe decodes a frame by the layouts of the protocol, independently of package wire.
func describe(t *testing.T, f seenFrame) string {
	t.Helper()
	if f.flags == 0 {
		var m map[string]any
		d := json.NewDecoder(strings.NewReader(string(f.payload)))
		d.UseNumber()
		if err := d.Decode(&m); err != nil {
			t.Fatalf("%q: %v", f.payload, err)
		}
		if list, ok := m["payloads"].([]any); ok {
			for i, p := range list {
				raw, err := base64.StdEncoding.DecodeString(p.(string))
				if err != nil {
					t.Fatal(err)
				}
				list[i] = string(raw)
			}
		}
		keys := make([]string, 0, len(m))
		for k := range m {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		var out strings.Builder
		for _, k := range keys {
			fmt.Fprintf(&out, "%s=%v ", k, m[k])
		}
		return out.String()
	}
	r := &layout{t: t, b: f.payload}
	var out strings.Builder
	fmt.Fprintf(&out, "flags=%#x ", f.flags)
	if f.flags&0x0001 == 0 || f.flags&^uint16(0x0049) != 0 {
		t.Fatalf("flags %#x from a client", f.flags)
	}
	if f.flags&0x0008 != 0 {
		fmt.Fprintf(&out, "id=%d ack=%d ", binary.BigEndian.Uint64(r.take(8)), r.take(1)[0])
	}
	if f.flags&0x0040 != 0 {
		fmt.Fprintf(&out, "key=%s ", r.text())
	}
	fmt.Fprintf(&out, "%s/%s/%s", r.text(), r.text(), r.text())
	for range binary.BigEndian.Uint32(r.take(4)) {
		fmt.Fprintf(&out, " %q", r.take(int(binary.BigEndian.Uint32(r.take(4)))))
	}
	if len(r.b) != 0 {
		t.Fatalf("%d bytes after the last item", len(r.b))
	}
	return out.String()
}

type layout struct {
	t *testing.T
	b []byte
}

func (l *layout) take(n int) []byte {
	l.t.Helper()
	if n > len(l.b) {
		l.t.Fatalf("%d bytes wanted, %d left", n, len(l.b))
	}
	part := l.b[:n]
	l.b = l.b[n:]
	return part
}

func (l *layout) text() string { return string(l.take(int(binary.BigEndian.Uint16(l.take(2))))) }

// vector returns the bytes of a frame of the protocol's test vectors.
func vector(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "wire", "testdata", "vectors", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		FrameHex string `json:"frame_hex"`
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	frame, err := hex.DecodeString(v.FrameHex)
	if err != nil || len(frame) == 0 {
		t.Fatalf("vector %s: %v", name, err)
	}
	return frame
}

// capture runs f against a broker and returns what was written to each stream.
func capture(t *testing.T, b *fakeBroker, f func(ctx context.Context, c *Client)) [][]byte {
	t.Helper()
	rec := new(tap)
	n := &fakeNetwork{window: 1 << 20, serve: func(c serverConn) { b.serve(&tapConn{c, rec}) }}
	cfg := testConfig()
	cfg.Token = "demo-token"
	c, err := connectTo(cfg, n)
	if err != nil {
		t.Fatal(err)
	}
	f(patient(t), c)
	if err := c.Close(patient(t)); err != nil {
		t.Fatal(err)
	}
	n.cut()
	return rec.all()
}

// What the client writes can be decoded with nothing but the protocol's description, and is byte for byte what the test
// vectors say where there is one.
func TestBytesOnTheWire(t *testing.T) {
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const login = "client_flags=63 tenant_id=t1 token=demo-token type=auth "
	hello, world := []byte("hello"), []byte("world")
	keyed := newFakeBroker("demo")
	keyed.flags = 0x7F
	legacy := newFakeBroker("demo")
	legacy.legacy = true
	primary := newFakeBroker()
	primary.caches = []string{"c1", "primary"}

	for name, c := range map[string]struct {
		b       *fakeBroker
		run     func(context.Context, *Client)
		frames  []string
		vectors map[int]string // by index into frames
	}{
		"connect": {
			newFakeBroker(), func(context.Context, *Client) {},
			[]string{login}, map[int]string{0: "extra/auth_full_flags"},
		},
		"publish unacked": {
			newFakeBroker("demo"), func(ctx context.Context, c *Client) {
				check(c.PublishBatch(ctx, "demo", [][]byte{hello, world}, WithAck(AckNone)))
			},
			[]string{login, `flags=0x1 t1/default/demo "hello" "world"`},
			map[int]string{0: "extra/auth_full_flags", 1: "extra/binary_publish_batch"},
		},
		"publish per message": {
			newFakeBroker("demo"), func(ctx context.Context, c *Client) {
				check(c.Publish(ctx, "demo", []byte("a"), WithAck(AckPerMessage)))
			},
			[]string{login, `flags=0x9 id=1 ack=1 t1/default/demo "a"`},
			map[int]string{1: "extra/binary_publish_acked_per_message"},
		},
		"publish per batch": {
			newFakeBroker("demo"), func(ctx context.Context, c *Client) {
				for range 6 {
					check(c.PublishBatch(ctx, "demo", nil))
				}
				check(c.PublishBatch(ctx, "demo", [][]byte{hello}, WithAck(AckPerBatch)))
			},
			[]string{
				login, `flags=0x9 id=1 ack=2 t1/default/demo`, `flags=0x9 id=2 ack=2 t1/default/demo`,
				`flags=0x9 id=3 ack=2 t1/default/demo`, `flags=0x9 id=4 ack=2 t1/default/demo`,
				`flags=0x9 id=5 ack=2 t1/default/demo`, `flags=0x9 id=6 ack=2 t1/default/demo`,
				`flags=0x9 id=7 ack=2 t1/default/demo "hello"`,
			},
			map[int]string{7: "binary_publish_acked"},
		},
		"publisher": {
			newFakeBroker("demo"), func(ctx context.Context, c *Client) {
				p := c.NewPublisher("demo", PublisherOptions{Ack: AckNone, MaxDelay: -1})
				check(p.Publish(ctx, hello))
				check(p.Publish(ctx, world))
				check(p.Flush(ctx))
				q := c.NewPublisher("demo", PublisherOptions{Ack: AckPerMessage, MaxDelay: -1})
				check(q.Publish(ctx, []byte("a")))
				check(q.Flush(ctx))
			},
			[]string{login, `flags=0x1 t1/default/demo "hello" "world"`, `flags=0x9 id=1 ack=1 t1/default/demo "a"`},
			map[int]string{1: "extra/binary_publish_batch", 2: "extra/binary_publish_acked_per_message"},
		},
		"publish keyed": {
			keyed, func(ctx context.Context, c *Client) {
				check(c.Publish(ctx, "demo", []byte("hi"), WithAck(AckNone), WithKey([]byte("kk"))))
				check(c.Publish(ctx, "demo", []byte("hi"), WithKey(nil)))
			},
			[]string{login, `flags=0x41 key=kk t1/default/demo "hi"`, `flags=0x49 id=1 ack=2 key= t1/default/demo "hi"`},
			map[int]string{1: "extra/binary_publish_keyed"},
		},
		"publish to an old broker": {
			legacy, func(ctx context.Context, c *Client) {
				check(c.Publish(ctx, "demo", []byte("x"), WithAck(AckPerMessage)))
				check(c.PublishBatch(ctx, "demo", [][]byte{hello, world}))
				check(c.PublishBatch(ctx, "demo", [][]byte{hello, world}, WithAck(AckNone)))
			},
			[]string{
				login,
				"ack=per_message namespace=default payloads=[x] request_id=1 stream=demo tenant_id=t1 type=publish_batch ",
				"ack=per_batch namespace=default payloads=[hello world] request_id=2 stream=demo tenant_id=t1 type=publish_batch ",
				`flags=0x1 t1/default/demo "hello" "world"`,
			},
			map[int]string{2: "extra/publish_batch_per_batch", 3: "extra/binary_publish_batch"},
		},
		"subscribe": {
			newFakeBroker("demo"), func(ctx context.Context, c *Client) {
				for _, o := range []SubscribeOption{FromLatest(), FromEarliest(), FromOffset(0)} {
					_, err := c.Subscribe(ctx, "demo", o)
					check(err)
				}
			},
			[]string{
				login, "namespace=default stream=demo tenant_id=t1 type=subscribe ",
				login, "namespace=default start=earliest stream=demo tenant_id=t1 type=subscribe ",
				login, "namespace=default start=map[offset:0] stream=demo tenant_id=t1 type=subscribe ",
			},
			map[int]string{1: "subscribe", 3: "extra/subscribe_earliest"},
		},
		"cache": {
			primary, func(ctx context.Context, c *Client) {
				for range 2 {
					_, _, err := c.Cache("c1").Get(ctx, "k")
					check(err)
				}
				check(c.Cache("primary").Put(ctx, "demo-key", []byte("cached"), 0))
				_, _, err := c.Cache("primary").Get(ctx, "demo-key")
				check(err)
			},
			[]string{
				login,
				"cache=c1 key=k namespace=default request_id=1 tenant_id=t1 type=cache_get ",
				"cache=c1 key=k namespace=default request_id=2 tenant_id=t1 type=cache_get ",
				"cache=primary key=demo-key namespace=default request_id=3 tenant_id=t1 ttl_ms=<nil> type=cache_put value=Y2FjaGVk ",
				"cache=primary key=demo-key namespace=default request_id=4 tenant_id=t1 type=cache_get ",
			},
			map[int]string{3: "extra/cache_put_no_ttl", 4: "extra/cache_get_with_id"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var frames []seenFrame
			var got []string
			for _, b := range capture(t, c.b, c.run) {
				for _, f := range splitFrames(t, b) {
					frames = append(frames, f)
					got = append(got, describe(t, f))
				}
			}
			if !slices.Equal(got, c.frames) {
				t.Fatalf("the client wrote\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.frames, "\n"))
			}
			for i, name := range c.vectors {
				if want := vector(t, name); !slices.Equal(frames[i].raw, want) {
					t.Errorf("frame %d is\n%x\nvector %s is\n%x", i, frames[i].raw, name, want)
				}
			}
		})
	}
}
