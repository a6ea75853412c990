package quicprobe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// frames makes n frames of one stream.
func frames(stream, chunk int, n int64) []byte {
	m := newFrameMaker(stream, chunk)
	var all []byte
	for left := n; left > 0; {
		block := m.next(left)
		all = append(all, block...)
		left -= int64(len(block) / m.frame)
	}
	return all
}

func TestFramesAreRoundTripped(t *testing.T) {
	for _, chunk := range []int{headLen, 17, 4095, 4091 + headLen, 60_000, 65536, 300_000} {
		text := frames(3, chunk, 25)
		if want := 25 * (prefixLen + chunk); len(text) != want {
			t.Fatalf("chunk %d: made %d bytes, want %d", chunk, len(text), want)
		}
		for name, r := range map[string]io.Reader{
			"as much as fits": bytes.NewReader(text),
			"halves":          iotest.HalfReader(bytes.NewReader(text)),
			"with the end":    iotest.DataErrReader(bytes.NewReader(text)),
			"by 1000":         &portions{bytes.NewReader(text), 1000},
		} {
			o := Options{Connections: 1, Streams: 4, Chunk: chunk, Bytes: int64(chunk) * 100}
			c := collector{o: o, ended: make([]bool, 4)}
			m := newMeter()
			if err := c.collect(r, m); err != nil {
				t.Errorf("chunk %d, %s: %v", chunk, name, err)
			}
			if c.payload != int64(25*chunk) || c.frames != 25 || m.count.Load() != int64(len(text)) {
				t.Errorf("chunk %d, %s: %d bytes in %d frames, %d counted", chunk, name, c.payload, c.frames, m.count.Load())
			}
		}
	}
}

// portions reads at most n bytes at once.
type portions struct {
	r io.Reader
	n int
}

func (p *portions) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), p.n)]) }

// TestReceiverNoticesEverything: what the transport does wrong fails the run.
func TestReceiverNoticesEverything(t *testing.T) {
	const chunk, n, frame = 1000, 10, prefixLen + 1000
	o := Options{Connections: 1, Streams: 2, Chunk: chunk, Bytes: chunk * n * 2}
	for _, c := range []struct {
		name  string
		spoil func(b []byte) []byte
		says  string
	}{
		{"a flipped bit", func(b []byte) []byte { b[5*frame+777] ^= 1; return b }, "other content"},
		{"a flipped bit in the last byte", func(b []byte) []byte { b[len(b)-1] ^= 0x80; return b }, "other content"},
		{"a flipped length", func(b []byte) []byte { b[2*frame+3] ^= 1; return b }, "a frame of"},
		{"a lying length", func(b []byte) []byte { b[2*frame] = 0xff; return b }, "1000 is the largest"},
		{"a lost frame", func(b []byte) []byte { return append(b[:3*frame:3*frame], b[4*frame:]...) }, "frame 4 of stream 1 arrived where frame 3"},
		{"a repeated frame", func(b []byte) []byte { return append(b[:frame:frame], b...) }, "frame 0 of stream 1 arrived where frame 1"},
		{"swapped frames", func(b []byte) []byte {
			return bytes.Join([][]byte{b[frame : 2*frame], b[:frame], b[2*frame:]}, nil)
		}, "arrived where frame 0"},
		{"a lost packet's worth", func(b []byte) []byte { return append(b[:2500:2500], b[3700:]...) }, "frame 2 of stream 1 arrived with other content"},
		{"a frame of another stream", func(b []byte) []byte { return append(b[:frame:frame], frames(0, chunk, 2)[frame:]...) }, "of stream 0 arrived where"},
		{"an early end", func(b []byte) []byte { return b[:9*frame] }, "ended after 9 frames, 10 were sent"},
		{"an end inside a frame", func(b []byte) []byte { return b[:9*frame+1] }, io.ErrUnexpectedEOF.Error()},
		{"more than was sent", func([]byte) []byte { return frames(1, chunk, n+1) }, "ended after 11 frames"},
		{"an unknown stream", func([]byte) []byte { return frames(2, chunk, n) }, "not expected"},
		{"nothing at all", func([]byte) []byte { return nil }, "ended after 0 frames"},
	} {
		k := collector{o: o, ended: make([]bool, 2)}
		err := k.collect(bytes.NewReader(c.spoil(frames(1, chunk, n))), newMeter())
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
	k := collector{o: o, ended: make([]bool, 2)}
	for i, want := range []string{"", "not expected"} {
		err := k.collect(bytes.NewReader(frames(1, chunk, n)), newMeter())
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("stream 1, time %d: %v", i+1, err)
		}
	}
}

func TestReaderPassesErrorsOn(t *testing.T) {
	boom := errors.New("boom")
	r := io.MultiReader(bytes.NewReader(frames(0, 100, 3)), iotest.ErrReader(boom))
	k := collector{o: Options{Connections: 1, Streams: 1, Chunk: 100, Bytes: 300}, ended: make([]bool, 1)}
	if err := k.collect(r, newMeter()); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
}

// recorder is a stream to write to.
type recorder struct {
	bytes.Buffer
	ended  bool
	writes int
	err    error
}

func (r *recorder) Write(p []byte) (int, error) {
	r.writes++
	if r.err != nil {
		return 0, r.err
	}
	return r.Buffer.Write(p)
}

func (r *recorder) CloseWrite() error { r.ended = true; return nil }

func TestRelayForwardsWholeFrames(t *testing.T) {
	text := frames(0, 1000, 50)
	var out recorder
	m := newMeter()
	if err := forwardFrames(&portions{bytes.NewReader(text), 2500}, &out, 1000, m); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), text) || !out.ended || m.count.Load() != int64(len(text)) {
		t.Errorf("%d of %d bytes, ended %v, counted %d", out.Len(), len(text), out.ended, m.count.Load())
	}
	if out.writes > 25 {
		t.Errorf("%d writes for 21 reads", out.writes)
	}
	// A frame goes on when it is there, and not before.
	in, feed := io.Pipe()
	steps := &stepper{written: make(chan int)}
	errs := make(chan error, 1)
	go func() { errs <- forwardFrames(in, steps, 1000, newMeter()) }()
	for _, c := range []struct{ feed, forwarded int }{{1004, 1004}, {10, 0}, {994, 1004}, {2 * 1004, 2 * 1004}} {
		if _, err := feed.Write(text[:c.feed]); err != nil {
			t.Fatal(err)
		}
		text = text[c.feed:]
		if c.forwarded == 0 {
			continue
		}
		if n := <-steps.written; n != c.forwarded {
			t.Errorf("after %d bytes %d were forwarded, want %d", c.feed, n, c.forwarded)
		}
	}
	feed.Close()
	if err := <-errs; err != nil {
		t.Error(err)
	}
}

type stepper struct{ written chan int }

func (s *stepper) Write(p []byte) (int, error) { s.written <- len(p); return len(p), nil }
func (s *stepper) CloseWrite() error           { return nil }

func TestRelayStopsOnErrors(t *testing.T) {
	boom := errors.New("boom")
	if err := forwardFrames(bytes.NewReader(frames(0, 100, 3)), &recorder{err: boom}, 100, newMeter()); !errors.Is(err, boom) {
		t.Errorf("a failed write: %v", err)
	}
	out := &recorder{}
	r := io.MultiReader(bytes.NewReader(frames(0, 100, 3)), iotest.ErrReader(boom))
	if err := forwardFrames(r, out, 100, newMeter()); !errors.Is(err, boom) || out.ended {
		t.Errorf("a failed read: %v, ended %v", err, out.ended)
	}
	if err := forwardFrames(bytes.NewReader(frames(0, 100, 3)[:150]), out, 100, newMeter()); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a cut frame: %v", err)
	}
}

func TestSingleFrames(t *testing.T) {
	text := frames(7, 40, 3)
	f := newFrameReader(bytes.NewReader(text), 40)
	for i := range 3 {
		p, err := f.one()
		if err != nil || len(p) != 40 || binary.BigEndian.Uint64(p[8:]) != uint64(i) {
			t.Fatalf("frame %d: %x, %v", i, p, err)
		}
		f.dropOne()
	}
	if _, err := f.one(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestPatternHidesNoShift(t *testing.T) {
	p := make([]byte, 3*len(pattern))
	fill(p)
	if !filled(p) {
		t.Error("what was filled is not taken for it")
	}
	for _, shift := range []int{1, 16, 64, 256, 1200, 1452, 4096, 8952, 65536} {
		if shift %= len(pattern); filled(p[shift : shift+100]) {
			t.Errorf("a shift by %d is not noticed", shift)
		}
	}
}
