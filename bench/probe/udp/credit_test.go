package udpprobe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"testing"
	"time"
)

// scripted gives one piece a read; a nil piece is a deadline that passed.
type scripted struct {
	pieces [][]byte
	reads  int
}

func (s *scripted) SetReadDeadline(time.Time) error { return nil }

func (s *scripted) Read(p []byte) (int, error) {
	if s.reads >= len(s.pieces) {
		return 0, io.EOF
	}
	piece := s.pieces[s.reads]
	s.reads++
	if piece == nil {
		return 0, os.ErrDeadlineExceeded
	}
	return copy(p, piece), nil
}

func message(numbers ...uint64) []byte {
	var b []byte
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

func TestWindowAdmitsUntilFull(t *testing.T) {
	s := &scripted{pieces: [][]byte{message(30, 50)}}
	w := &window{credits: s, size: 100}
	for first := uint64(0); first < 100; first += 10 {
		if err := w.admit(first, first+9); err != nil {
			t.Fatal(err)
		}
	}
	if s.reads != 0 || w.waits != 0 {
		t.Fatalf("waited with room in the window: %d reads", s.reads)
	}
	if err := w.admit(100, 109); err != nil {
		t.Fatal(err)
	}
	if w.acked != 50 || w.waits != 1 {
		t.Errorf("acked %d, waits %d: the last message counts", w.acked, w.waits)
	}
	if err := w.admit(140, 150); !errors.Is(err, io.EOF) {
		t.Errorf("a receiver that ended: %v", err)
	}
}

func TestWindowSurvivesLoss(t *testing.T) {
	s := &scripted{pieces: [][]byte{nil}}
	w := &window{credits: s, size: 10}
	if err := w.admit(10, 12); err != nil {
		t.Fatal(err)
	}
	if w.stalls != 1 || w.acked != 10 {
		t.Errorf("stalls %d, acked %d", w.stalls, w.acked)
	}
}

func TestWindowSmallerThanAWrite(t *testing.T) {
	s := &scripted{pieces: [][]byte{message(40), message(64)}}
	w := &window{credits: s, size: 10}
	if err := w.admit(0, 63); err != nil || w.waits != 0 {
		t.Fatalf("the first write must go: %v, %d waits", err, w.waits)
	}
	if err := w.admit(64, 127); err != nil || s.reads != 2 {
		t.Errorf("the second waits for all of the first: %v, %d reads", err, s.reads)
	}
}

func TestWindowPiecesTogetherMessages(t *testing.T) {
	m := message(5, 99)
	s := &scripted{pieces: [][]byte{m[:3], m[3:11], m[11:]}}
	w := &window{credits: s, size: 1}
	if err := w.admit(99, 99); err != nil {
		t.Fatal(err)
	}
	if w.acked != 99 || w.partial != 0 {
		t.Errorf("acked %d, %d bytes left over", w.acked, w.partial)
	}
}

func TestCreditIsTold(t *testing.T) {
	var b bytes.Buffer
	c := creditWriter{w: &b, every: 8, write: 4}
	for next := uint64(1); next <= 20; next++ {
		if c.due(next) {
			c.tell(next)
		}
	}
	if !bytes.Equal(b.Bytes(), message(8, 16)) {
		t.Errorf("told %x", b.Bytes())
	}
	// A sender whose writes are longer than the steps waits for their ends.
	b.Reset()
	c = creditWriter{w: &b, every: 4, write: 10}
	for next := uint64(1); next <= 20; next++ {
		if c.due(next) {
			c.tell(next)
		}
	}
	if !bytes.Equal(b.Bytes(), message(4, 8, 10, 14, 18, 20)) {
		t.Errorf("told %x", b.Bytes())
	}
}

// TestNoStallAtAnySize plays both ends for windows around the size of a write.
func TestNoStallAtAnySize(t *testing.T) {
	for size := uint64(1); size < 70; size++ {
		for write := uint64(1); write < 70; write++ {
			playWindow(t, size, write)
		}
	}
}

func playWindow(t *testing.T, size, write uint64) {
	t.Helper()
	told := &told{}
	c := creditWriter{w: told, every: max(size/4, 1), write: write}
	w := &window{credits: told, size: size}
	for first := uint64(0); first < 10*write; first += write {
		if err := w.admit(first, first+write-1); err != nil {
			t.Fatalf("window %d, write %d: %v", size, write, err)
		}
		for next := first + 1; next <= first+write; next++ { // all of it arrives
			if c.due(next) {
				c.tell(next)
			}
		}
	}
}

// told is a pipe that reports an empty read as an error: a stall.
type told struct{ bytes.Buffer }

func (*told) SetReadDeadline(time.Time) error { return nil }
