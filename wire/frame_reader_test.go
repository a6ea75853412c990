package wire

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// chunkReader hands out data in the given chunk sizes, over and over; a size of 0
// is an empty read. It is done when data is.
type chunkReader struct {
	data  []byte
	sizes []int
	next  int
	err   error // at the end; io.EOF when nil
	reads int
	last  int // bytes of the last read
}

func (c *chunkReader) Read(p []byte) (int, error) {
	c.reads++
	if len(c.data) == 0 {
		if c.err != nil {
			return 0, c.err
		}
		return 0, io.EOF
	}
	n := min(len(p), len(c.data))
	if len(c.sizes) > 0 {
		n = min(n, c.sizes[c.next%len(c.sizes)])
		c.next++
	}
	copy(p, c.data[:n])
	c.data = c.data[n:]
	c.last = n
	return n, nil
}

// splitStream is the one-shot parse of a stream that a FrameReader must agree with.
func splitStream(b []byte, maxFrame int) ([]Frame, error) {
	var frames []Frame
	for len(b) > 0 {
		h, err := ParseHeader(b, maxFrame)
		if errors.Is(err, ErrShortHeader) {
			return frames, io.EOF
		}
		if err != nil {
			return frames, err
		}
		end := HeaderLen + int(h.Length)
		if end > len(b) {
			return frames, io.ErrUnexpectedEOF
		}
		frames = append(frames, Frame{Flags: h.Flags, Raw: b[:end]})
		b = b[end:]
	}
	return frames, io.EOF
}

// ownersByte is what the owner of frame i fills it with.
func ownersByte(i int) byte { return byte(i)*7 + 1 }

// readAll reads every frame. It overwrites each frame once it has looked at it,
// as an owner may, and checks at the end that the reader never wrote there.
func readAll(t interface{ Fatalf(string, ...any) }, r *FrameReader) ([]Frame, error) {
	var copies, kept []Frame
	for {
		f, err := r.Next()
		if err != nil {
			for i, f := range kept {
				for j, b := range f.Raw {
					if b != ownersByte(i) {
						t.Fatalf("byte %d of frame %d was written after the frame was handed out", j, i)
					}
				}
			}
			if _, again := r.Next(); again != err {
				t.Fatalf("the error was %v, then %v", err, again)
			}
			if !r.Buffered() {
				t.Fatalf("Buffered is false after %v", err)
			}
			return copies, err
		}
		if cap(f.Raw) != len(f.Raw) {
			t.Fatalf("frame of %d bytes has room for %d", len(f.Raw), cap(f.Raw))
		}
		copies = append(copies, Frame{Flags: f.Flags, Raw: bytes.Clone(f.Raw)})
		for i := range f.Raw {
			f.Raw[i] = ownersByte(len(kept))
		}
		kept = append(kept, f)
	}
}

// sameError compares what two parsers of one stream returned.
func sameError(a, b error) bool {
	var x, y *FrameTooLargeError
	if errors.As(a, &x) && errors.As(b, &y) {
		return *x == *y
	}
	return a == b
}

func checkStream(t interface{ Fatalf(string, ...any) }, stream []byte, maxFrame int, src io.Reader) {
	want, wantErr := splitStream(stream, maxFrame)
	got, err := readAll(t, NewFrameReader(src, maxFrame))
	if !sameError(err, wantErr) {
		t.Fatalf("error %v, want %v", err, wantErr)
	}
	if len(got) != len(want) {
		t.Fatalf("%d frames, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i].Flags != want[i].Flags || !bytes.Equal(got[i].Raw, want[i].Raw) {
			t.Fatalf("frame %d of %d bytes differs", i, len(want[i].Raw))
		}
	}
}

// genStream draws frames of sizes around those where the reader changes its mind.
func genStream() *rapid.Generator[[]byte] {
	size := rapid.OneOf(
		rapid.IntRange(0, 60),
		rapid.IntRange(0, 3*firstSlab),
		rapid.IntRange(largeFrame-40, largeFrame+40),
		rapid.IntRange(maxSlab-40, maxSlab+40),
		rapid.IntRange(0, 5*maxSlab),
	)
	return rapid.Custom(func(t *rapid.T) []byte {
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		var b []byte
		sizes := rapid.SliceOfN(size, 0, 30).Draw(t, "sizes")
		sizes = append(sizes, rapid.SliceOfN(rapid.IntRange(0, largeFrame), 0, 60).Draw(t, "small")...)
		for _, n := range sizes {
			b = AppendHeader(b, Flags(rnd.Uint32()), n)
			for range n {
				b = append(b, byte(rnd.Uint32()))
			}
		}
		return b
	})
}

func TestFrameReaderEqualsOneShot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stream := genStream().Draw(t, "stream")
		if rapid.Bool().Draw(t, "cut") && len(stream) > 0 {
			stream = stream[:rapid.IntRange(0, len(stream)).Draw(t, "at")]
		}
		if rapid.IntRange(0, 9).Draw(t, "garbage") == 0 {
			stream = append(stream, rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "bytes")...)
		}
		chunk := rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(1, 2000), rapid.IntRange(1, 100000))
		sizes := append(rapid.SliceOfN(chunk, 0, 10).Draw(t, "chunks"), 1+len(stream)/200)
		maxFrame := rapid.SampledFrom([]int{DefaultMaxFrameBytes, largeFrame}).Draw(t, "limit")
		checkStream(t, stream, maxFrame, &chunkReader{data: stream, sizes: sizes})
	})
}

func TestFrameReaderOddReaders(t *testing.T) {
	sizes := []int{0, 1, 500, largeFrame, 3000, maxSlab, 100000, 0, 100000, 7, 4000, 4000}
	for range 100 {
		sizes = append(sizes, 700) // enough for several slabs of the largest size
	}
	var stream []byte
	for _, n := range sizes {
		stream = append(AppendHeader(stream, Flags(n), n), bytes.Repeat([]byte{byte(n)}, n)...)
	}
	wrappers := map[string]func(io.Reader) io.Reader{
		"plain":           func(r io.Reader) io.Reader { return r },
		"one byte":        iotest.OneByteReader,
		"half":            iotest.HalfReader,
		"data with error": iotest.DataErrReader,
	}
	for name, wrap := range wrappers {
		t.Run(name, func(t *testing.T) {
			for _, cut := range []int{0, 1, 11, 12, 13, 600, len(stream) - 1, len(stream)} {
				checkStream(t, stream[:cut], DefaultMaxFrameBytes, wrap(bytes.NewReader(stream[:cut])))
			}
		})
	}
}

func TestFrameReaderEnds(t *testing.T) {
	whole := append(AppendHeader(nil, 0, 3), "abc"...)
	bad := errors.New("reset by peer")
	tests := []struct {
		name   string
		stream []byte
		end    error
		frames int
		want   error
	}{
		{"nothing", nil, nil, 0, io.EOF},
		{"between frames", whole, nil, 1, io.EOF},
		{"inside a header", append(bytes.Clone(whole), whole[:5]...), nil, 1, io.EOF},
		{"before a payload", append(bytes.Clone(whole), whole[:12]...), nil, 1, io.ErrUnexpectedEOF},
		{"inside a payload", append(bytes.Clone(whole), whole[:14]...), nil, 1, io.ErrUnexpectedEOF},
		{"before an empty payload", AppendHeader(nil, 0, 0), nil, 1, io.EOF},
		{"inside a large payload", AppendHeader(nil, 0, 1<<20), nil, 0, io.ErrUnexpectedEOF},
		{"reader fails between frames", whole, bad, 1, bad},
		{"reader fails inside a header", whole[:5], bad, 0, bad},
		{"reader fails inside a payload", whole[:13], bad, 0, bad},
		{"reader fails inside a large payload", append(AppendHeader(nil, 0, 1<<20), make([]byte, 9999)...), bad, 0, bad},
	}
	for _, tt := range tests {
		frames, err := readAll(t, NewFrameReader(&chunkReader{data: tt.stream, err: tt.end}, DefaultMaxFrameBytes))
		if len(frames) != tt.frames || err != tt.want {
			t.Errorf("%s: %d frames, %v; want %d, %v", tt.name, len(frames), err, tt.frames, tt.want)
		}
	}
}

// emptyReader returns nothing for ever.
type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, nil }

// badReader returns an impossible count.
type badReader int

func (r badReader) Read(p []byte) (int, error) { return len(p) + int(r), nil }

func TestFrameReaderBrokenReaders(t *testing.T) {
	if _, err := NewFrameReader(emptyReader{}, 100).Next(); err != io.ErrNoProgress {
		t.Errorf("empty reads: error %v", err)
	}
	if _, err := NewFrameReader(badReader(1), 100).Next(); err != errBadRead {
		t.Errorf("count too high: error %v", err)
	}
	if _, err := NewFrameReader(badReader(-1<<20), 100).Next(); err != errBadRead {
		t.Errorf("negative count: error %v", err)
	}
}

func TestFrameReaderBuffered(t *testing.T) {
	frame := append(AppendHeader(nil, 0, 3), "abc"...)
	stream := append(bytes.Clone(frame), frame...)
	src := &chunkReader{data: append(stream, frame[:13]...), err: iotest.ErrTimeout}
	r := NewFrameReader(src, 100)
	if r.Buffered() {
		t.Error("a fresh reader has a frame")
	}
	next := func(want bool) {
		t.Helper()
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		if got := r.Buffered(); got != want {
			t.Errorf("Buffered is %v, want %v", got, want)
		}
	}
	next(true)
	before := src.reads
	next(false)
	if src.reads != before {
		t.Error("Next read although a frame was buffered")
	}

	bad := append(bytes.Clone(frame), "garbage of 20 bytes.."...)
	r = NewFrameReader(&chunkReader{data: bad}, 100)
	next(true) // the error is there
	if _, err := r.Next(); !errors.Is(err, ErrBadMagic) {
		t.Errorf("error %v", err)
	}
}

func TestFrameReaderSetMaxFrame(t *testing.T) {
	frame := append(AppendHeader(nil, 0, 30), make([]byte, 30)...)
	r := NewFrameReader(bytes.NewReader(append(bytes.Clone(frame), frame...)), 30)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	r.SetMaxFrame(29)
	var tooLarge *FrameTooLargeError
	if _, err := r.Next(); !errors.As(err, &tooLarge) || tooLarge.Length != 30 || tooLarge.Limit != 29 {
		t.Errorf("error %v", err)
	}
	r = NewFrameReader(bytes.NewReader(frame), 10)
	r.SetMaxFrame(30)
	if _, err := r.Next(); err != nil {
		t.Error(err)
	}
}

// Large frames that follow each other are read straight into memory of their
// own: the header in one read, the rest in another.
func TestFrameReaderLargeFramesAreNotCopied(t *testing.T) {
	const count, size = 20, 60000
	var stream []byte
	for range count {
		stream = append(AppendHeader(stream, 0, size), make([]byte, size)...)
	}
	src := &chunkReader{data: stream}
	r := NewFrameReader(src, DefaultMaxFrameBytes)
	for i := range count {
		before := src.reads
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		if got := src.reads - before; i > 0 && (got != 2 || src.last != size) {
			t.Errorf("frame %d took %d reads, the last of %d bytes", i, got, src.last)
		}
	}
}

// Small frames share slabs: 1000 of them cost about one allocation in ten.
func TestFrameReaderSmallFramesShareSlabs(t *testing.T) {
	const count = 1000
	stream := bytes.Repeat(append(AppendHeader(nil, 0, 1000), make([]byte, 1000)...), count)
	src := bytes.NewReader(nil)
	got := testing.AllocsPerRun(3, func() {
		src.Reset(stream)
		r := NewFrameReader(src, DefaultMaxFrameBytes)
		for range count {
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
		}
	})
	if got > count/10 {
		t.Errorf("%v allocations for %d frames", got, count)
	}
}

// However many frames pass, a kept small frame pins no more than one slab.
func TestFrameReaderSlabsAreBounded(t *testing.T) {
	frame := append(AppendHeader(nil, 0, 1000), make([]byte, 1000)...)
	r := NewFrameReader(bytes.NewReader(bytes.Repeat(frame, 500)), DefaultMaxFrameBytes)
	largest := 0
	for {
		if _, err := r.Next(); err != nil {
			break
		}
		largest = max(largest, len(r.buf))
	}
	if largest != maxSlab {
		t.Errorf("largest slab has %d bytes, want %d", largest, maxSlab)
	}
}
