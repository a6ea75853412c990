package transport

import (
	"context"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// flood writes to a stream of the server as long as it takes, and counts what was taken.
func flood(t *testing.T, server *Conn) (*SendStream, *atomic.Int64) {
	t.Helper()
	s, err := server.OpenUniStream(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	taken := new(atomic.Int64)
	go func() {
		chunk := make([]byte, 32<<10)
		for {
			n, err := s.Write(chunk)
			taken.Add(int64(n))
			if err != nil {
				return
			}
		}
	}()
	return s, taken
}

// settled waits until a counter stands still.
func settled(t *testing.T, n *atomic.Int64) int64 {
	t.Helper()
	last, since := int64(-1), time.Now()
	eventually(t, "the writer to be blocked", func() bool {
		if now := n.Load(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 300*time.Millisecond
	})
	return last
}

// TestUnreadStream: a stream that nobody reads is held at its own window, and others on the connection go on: data of
// a second stream, and requests.
func TestUnreadStream(t *testing.T) {
	const streamWindow, connWindow, volume = 256 << 10, 1 << 20, 16 << 20
	client, server := pair(t, listen(t, nil), dialer(t, func(c *Config) {
		c.StreamWindow = Window{streamWindow, streamWindow}
		c.ConnWindow = Window{connWindow, connWindow}
	}))
	_, unread := flood(t, server)
	if held := settled(t, unread); held < streamWindow/2 || held > streamWindow+64<<10 {
		t.Errorf("%d bytes were taken for the unread stream, its window is %d", held, streamWindow)
	}
	read, err := server.OpenUniStream(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.CopyN(read, zeros{}, volume); _ = read.CloseWrite() }()
	ctx := testContext(t)
	in, err := client.AcceptUniStream(ctx)
	for err == nil && in.ID() != read.ID() { // the unread one
		in, err = client.AcceptUniStream(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := in.SetReadDeadline(time.Now().Add(3 * patience)); err != nil {
		t.Fatal(err)
	}
	if got, err := io.Copy(onlyWriter{}, in); err != nil || got != volume {
		t.Fatalf("read stream stopped after %d bytes: %v", got, err)
	}
	request, err := client.OpenStream(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := request.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := server.AcceptStream(testContext(t)); err != nil {
		t.Errorf("request next to an unread stream: %v", err)
	}
}

type onlyWriter struct{}

func (onlyWriter) Write(p []byte) (int, error) { return len(p), nil }

// TestUnreadStreamsFillConnection: as many unread streams as the connection window holds stream windows stop the
// connection's data. That is bounded, and over as soon as the reader gives the streams up.
func TestUnreadStreamsFillConnection(t *testing.T) {
	const streamWindow, connWindow = 64 << 10, 256 << 10
	small := func(c *Config) {
		c.StreamWindow = Window{streamWindow, streamWindow}
		c.ConnWindow = Window{connWindow, connWindow}
	}
	client, server := pair(t, listen(t, nil), dialer(t, small))
	total := new(atomic.Int64)
	for range connWindow / streamWindow {
		_, n := flood(t, server)
		total.Add(settled(t, n))
	}
	if total.Load() < connWindow/2 || total.Load() > connWindow+64<<10 {
		t.Errorf("%d bytes taken, want about the connection window of %d", total.Load(), connWindow)
	}
	last, err := server.OpenUniStream(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	blocked := func() error {
		if err := last.SetWriteDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
			return err
		}
		_, err := last.Write(make([]byte, 32<<10))
		return err
	}
	if err := blocked(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("write beyond the connection window: %v, want a deadline error", err)
	}
	for range connWindow / streamWindow {
		s, err := client.AcceptUniStream(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		s.CancelRead(0)
	}
	eventually(t, "writes to go on", func() bool { return blocked() == nil })
}

// TestCredits: each side may open at least 1024 streams of each kind at once.
func TestCredits(t *testing.T) {
	const want = 1024
	client, server := pair(t, listen(t, nil), dialer(t, nil))
	ctx := testContext(t)
	for name, c := range map[string]*Conn{"client": client, "server": server} {
		for range want {
			if _, err := c.OpenStream(ctx); err != nil {
				t.Fatalf("%s: bidirectional: %v", name, err)
			}
			if _, err := c.OpenUniStream(ctx); err != nil {
				t.Fatalf("%s: unidirectional: %v", name, err)
			}
		}
	}
}

func TestCreditsRunOut(t *testing.T) {
	client, _ := pair(t, listen(t, func(c *Config) { c.MaxIncomingStreams = 2; c.MaxIncomingUniStreams = -1 }), dialer(t, nil))
	for range 2 {
		if _, err := client.OpenStream(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := client.OpenStream(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("third stream: %v, want it to wait", err)
	}
	if _, err := client.OpenUniStream(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("unidirectional stream: %v, want it to wait", err)
	}
}

func TestReceiveBudget(t *testing.T) {
	var b receiveBudget
	first, second := new(attempt), new(attempt)
	if !b.take(first, 60, 100) || b.take(second, 50, 100) || !b.take(second, 40, 100) {
		t.Error("the limit is not kept")
	}
	if b.refused.Load() != 1 || b.used.Load() != 100 {
		t.Errorf("used %d, refused %d", b.used.Load(), b.refused.Load())
	}
	b.release(first)
	b.release(first)
	if b.used.Load() != 40 || !b.take(second, 60, 100) {
		t.Errorf("used %d after the release, want 40", b.used.Load())
	}
	if !b.take(second, 1000, -1) {
		t.Error("refused without a limit")
	}
}

// TestWindowGrowth: the windows of a connection grow while the reader keeps up, within the budget of the endpoint, and
// the growth is given back when the connection ends.
func TestWindowGrowth(t *testing.T) {
	for _, budget := range []int64{0, 1} {
		l := listen(t, func(c *Config) {
			c.StreamWindow = Window{Initial: 16 << 10, Max: 8 << 20}
			c.ConnWindow = Window{Initial: 16 << 10, Max: 8 << 20}
			c.ReceiveBudget = budget
		})
		client, server := pair(t, l, dialer(t, nil))
		s, err := client.OpenStream(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.CopyN(s, zeros{}, 16<<20); _ = s.CloseWrite() }()
		in, err := server.AcceptStream(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(onlyWriter{}, in); err != nil || n != 16<<20 {
			t.Fatalf("%d bytes, %v", n, err)
		}
		stats := l.Stats()
		if budget == 0 && stats.WindowBytes == 0 {
			t.Error("the window did not grow")
		}
		if budget == 1 && (stats.WindowBytes != 0 || stats.WindowHeld == 0) {
			t.Errorf("grown by %d in spite of the budget, refused %d times", stats.WindowBytes, stats.WindowHeld)
		}
		_ = server.CloseWithError(0, "") // always nil
		eventually(t, "the growth to be given back", func() bool { return l.Stats().WindowBytes == 0 })
	}
}
