package e2e

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"felix/client"
	"felix/internal/testkit"
	"felix/transport"
	"felix/wire"
)

// vectorFrames returns every frame of the wire vectors, good and bad ones.
func vectorFrames(t *testing.T) [][]byte {
	t.Helper()
	var frames [][]byte
	for _, pattern := range []string{"*.json", "extra/*.json"} {
		files, err := filepath.Glob(filepath.Join("../../wire/testdata/vectors", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			var list []struct {
				FrameHex string `json:"frame_hex"`
			}
			if json.Unmarshal(text, &list) != nil {
				list = append(list, struct {
					FrameHex string `json:"frame_hex"`
				}{})
				if err := json.Unmarshal(text, &list[0]); err != nil {
					t.Fatalf("%s: %v", f, err)
				}
			}
			for _, v := range list {
				if b, err := hex.DecodeString(v.FrameHex); err == nil && len(b) > 0 {
					frames = append(frames, b)
				}
			}
		}
	}
	if len(frames) < 30 {
		t.Fatalf("only %d frames in the vectors", len(frames))
	}
	return frames
}

// mutate damages a copy of frame in one to three places.
func mutate(r *rand.Rand, frame []byte) []byte {
	b := append([]byte(nil), frame...)
	for range 1 + r.IntN(3) {
		switch r.IntN(5) {
		case 0: // one bit
			b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		case 1: // one byte
			b[r.IntN(len(b))] = byte(r.Uint32())
		case 2: // cut short
			b = b[:1+r.IntN(len(b))]
		case 3: // a lying length or count
			at := r.IntN(len(b))
			for i := at; i < min(at+4, len(b)); i++ {
				b[i] = 0xff
			}
		case 4: // something more at the end
			for range 1 + r.IntN(20) {
				b = append(b, byte(r.Uint32()))
			}
		}
	}
	return b
}

// TestMutatedFrames throws 10 000 damaged frames at a live daemon, on streams
// that have and have not authenticated, while a healthy client publishes and
// subscribes. The daemon must keep serving it without a gap and stay small.
func TestMutatedFrames(t *testing.T) {
	d := testkit.StartDaemon(t, nil)
	healthy := connect(t, clientConfig(t, d))
	sub, err := healthy.Subscribe(t.Context(), "healthy")
	if err != nil {
		t.Fatal(err)
	}

	frames := vectorFrames(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))

	const total, perStream = 10_000, 8
	var conn *transport.Conn
	var token string
	for sent := 0; sent < total; {
		if conn == nil || conn.Context().Err() != nil {
			conn, _, token = dialRaw(t, d)
		}
		sent += hostileStream(t, r, conn, token, frames, perStream)
		if sent%1000 < perStream {
			echo(t, healthy, sub, fmt.Sprint(sent))
		}
	}
	echo(t, healthy, sub, "last")
	conn.CloseWithError(0, "")

	fresh := connect(t, clientConfig(t, d))
	if err := fresh.Publish(t.Context(), "healthy", []byte("from a new client")); err != nil {
		t.Fatalf("a new client after the attack: %v", err)
	}
	if rss := residentBytes(t, d.Cmd.Process.Pid); rss > 512<<20 {
		t.Errorf("the daemon holds %d MiB after the attack", rss>>20)
	}
}

// hostileStream opens one stream of a random kind, maybe authenticates, sends
// damaged frames and leaves in one of several rude ways.
func hostileStream(t *testing.T, r *rand.Rand, conn *transport.Conn, token string, frames [][]byte, n int) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var w interface {
		io.Writer
		CloseWrite() error
		CancelWrite(uint64)
		SetWriteDeadline(time.Time) error
	}
	var bidi *transport.Stream
	var err error
	if r.IntN(2) == 0 {
		bidi, err = conn.OpenStream(ctx)
		w = bidi
	} else {
		w, err = conn.OpenUniStream(ctx)
	}
	if err != nil {
		t.Fatalf("open a stream: %v", err)
	}
	w.SetWriteDeadline(time.Now().Add(10 * time.Second))
	if r.IntN(4) > 0 {
		auth, err := wire.AppendMessageFrame(nil, &wire.Auth{TenantID: "t1", Token: token})
		if err != nil {
			t.Fatal(err)
		}
		w.Write(auth) // errors below: the daemon may end the stream at any time
	}
	for range n {
		if _, err := w.Write(mutate(r, frames[r.IntN(len(frames))])); err != nil {
			break
		}
	}
	switch r.IntN(3) {
	case 0:
		w.CloseWrite()
	case 1:
		w.CancelWrite(7)
	case 2:
		w.CloseWrite()
	}
	if bidi != nil {
		bidi.CancelRead(7)
	}
	return n
}

// echo publishes text and waits for it at the subscription.
func echo(t *testing.T, c *client.Client, sub *client.Subscription, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := c.Publish(ctx, "healthy", []byte(text)); err != nil {
		t.Fatalf("publish %q: %v", text, err)
	}
	e, err := sub.Next(ctx)
	if err != nil || string(e.Payload) != text {
		t.Fatalf("got %q, %v; want %q", e.Payload, err, text)
	}
}

// residentBytes reads the resident set of a process.
func residentBytes(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kb); n == 1 {
			return kb << 10
		}
	}
	t.Fatal("no VmRSS in the status file")
	return 0
}

// TestOversizedPublish is field case F35: a frame over the limit, from our
// client and from a raw peer, is refused with the limit in the text, and the
// other streams of the connection go on.
func TestOversizedPublish(t *testing.T) {
	d := testkit.StartDaemon(t, nil)
	c := connect(t, clientConfig(t, d))
	for _, over := range []int{1, 4 << 20} {
		var tooLarge *client.TooLargeError
		err := c.Publish(t.Context(), "s", make([]byte, wire.DefaultMaxFrameBytes+over))
		if !errors.As(err, &tooLarge) || tooLarge.Limit != wire.DefaultMaxFrameBytes {
			t.Errorf("%d over: our client said %v, want TooLargeError with the limit", over, err)
		}
	}
	if err := c.Publish(t.Context(), "s", []byte("after")); err != nil {
		t.Errorf("publish after the refusals: %v", err)
	}

	for _, over := range []int{1, 4 << 20} {
		t.Run(fmt.Sprintf("raw peer %d over", over), func(t *testing.T) {
			conn, _, token := dialRaw(t, d)
			defer conn.CloseWithError(0, "")
			bystander := openAuthenticated(t, conn, token)

			s := openAuthenticated(t, conn, token)
			size := wire.DefaultMaxFrameBytes + over
			s.stream.SetWriteDeadline(time.Now().Add(20 * time.Second))
			s.stream.Write(wire.AppendHeader(nil, wire.FlagPublishBatch, size))
			go func() {
				chunk := make([]byte, 64<<10)
				for range size / len(chunk) {
					if _, err := s.stream.Write(chunk); err != nil {
						return // refused, as it should be
					}
				}
			}()
			m := s.message(t)
			e, ok := m.(*wire.Error)
			if !ok || !strings.Contains(e.Message, fmt.Sprint(wire.DefaultMaxFrameBytes)) {
				t.Fatalf("answer is %#v, want an error that names the limit", m)
			}
			bystander.ping(t)
		})
	}
}

// rawStream is an authenticated control stream of a peer without our client.
type rawStream struct {
	stream *transport.Stream
	frames *wire.FrameReader
}

func openAuthenticated(t *testing.T, conn *transport.Conn, token string) rawStream {
	t.Helper()
	s, err := conn.OpenStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := rawStream{s, wire.NewFrameReader(s, wire.DefaultMaxFrameBytes)}
	r.send(t, &wire.Auth{TenantID: "t1", Token: token})
	if m := r.message(t); m.Type() != "ok" {
		t.Fatalf("auth answered with %#v", m)
	}
	return r
}

func (r rawStream) send(t *testing.T, m wire.Message) {
	t.Helper()
	b, err := wire.AppendMessageFrame(nil, m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.stream.Write(b); err != nil {
		t.Fatalf("send %s: %v", m.Type(), err)
	}
}

func (r rawStream) message(t *testing.T) wire.Message {
	t.Helper()
	r.stream.SetReadDeadline(time.Now().Add(20 * time.Second))
	f, err := r.frames.Next()
	if err != nil {
		t.Fatalf("read an answer: %v", err)
	}
	m, err := wire.ParseMessage(f.Payload())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// ping proves that the stream still works.
func (r rawStream) ping(t *testing.T) {
	t.Helper()
	id := uint64(99)
	r.send(t, &wire.CachePut{TenantID: "t1", Namespace: "default", Cache: "c", Key: "k", Value: []byte("v"), RequestID: &id})
	if m, ok := r.message(t).(*wire.CacheOK); !ok || m.RequestID != id {
		t.Fatalf("the stream does not answer any more: %#v", m)
	}
}
