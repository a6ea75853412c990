package wire

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
)

// interruptedReader returns its bytes one chunk at a time with a read deadline
// after each chunk, as a stream does whose reader was called off.
type interruptedReader struct {
	data  []byte
	chunk int
	late  bool
}

func (r *interruptedReader) Read(p []byte) (int, error) {
	if r.late = !r.late; r.late {
		return 0, os.ErrDeadlineExceeded
	}
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.data[:min(r.chunk, len(r.data))])
	r.data = r.data[n:]
	return n, nil
}

func TestFrameReaderGoesOnAfterReadDeadline(t *testing.T) {
	var stream []byte
	var want [][]byte
	for _, n := range []int{0, 1, 100, 3000, 5000, 70000, 12, 40000} {
		frame := AppendHeader(nil, FlagEventBatchShared, n)
		frame = append(frame, bytes.Repeat([]byte{byte(n)}, n)...)
		want = append(want, frame)
		stream = append(stream, frame...)
	}
	for _, chunk := range []int{1, 7, 4096, 1 << 20} {
		r := NewFrameReader(&interruptedReader{data: stream, chunk: chunk}, DefaultMaxFrameBytes)
		deadlines := 0
		for i := 0; i < len(want); {
			f, err := r.Next()
			if errors.Is(err, os.ErrDeadlineExceeded) {
				deadlines++
				continue
			}
			if err != nil {
				t.Fatalf("chunk %d, frame %d: %v", chunk, i, err)
			}
			if !bytes.Equal(f.Raw, want[i]) || f.Flags != FlagEventBatchShared {
				t.Fatalf("chunk %d, frame %d: %d bytes, flags %#x", chunk, i, len(f.Raw), f.Flags)
			}
			i++
		}
		if deadlines == 0 {
			t.Errorf("chunk %d: never interrupted", chunk)
		}
	}
}
