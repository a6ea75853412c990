package wire

import (
	"errors"
	"io"
	"os"
)

const (
	// firstSlab is the first allocation of a stream: an auth frame fits.
	firstSlab = 2 << 10
	// maxSlab bounds what a small frame that is kept can pin, and is large enough
	// that allocations per small frame do not show in a profile.
	maxSlab = 16 << 10
	// largeFrame is the size from which a frame that does not fit the slab gets
	// memory of its own: moving it to the next slab would copy too much.
	largeFrame = maxSlab / 4

	// maxEmptyReads is how often in a row a reader may return nothing.
	maxEmptyReads = 100
)

var errBadRead = errors.New("wire: reader returned an impossible count")

// FrameReader reads frames off a byte stream. It takes memory from slabs of 2 to
// 16 KiB, which several small frames share; a large frame has memory of its own.
// Memory once handed out with a frame is never written again by the reader, so a
// frame may be kept for ever and by anyone; keeping a small one pins at most 16
// KiB. A length in a header costs no memory before the bytes arrive: at any time
// the reader holds at most about twice of what the peer has sent of the current
// frame, or twice the size of its last large one.
//
// A read deadline (os.ErrDeadlineExceeded) does not end the FrameReader: Next
// returns the error, and the next call goes on where that one stopped.
//
// A FrameReader must not be used by two goroutines at once. It closes nothing.
type FrameReader struct {
	r        io.Reader
	maxFrame int
	budget   Budget

	buf        []byte // current slab; buf[start:end] is read and not handed out
	start, end int
	nextSlab   int  // size of the next slab
	trusted    int  // a large frame up to this size is allocated at once
	large      bool // the last frame had memory of its own

	own  []byte // memory of the large frame being read, nil if there is none
	have int    // bytes of that frame read so far
	need int    // bytes of that frame in all

	readErr error // from r; reported once what was read before is used up
	fatal   error // what Next returned; it stays
}

// NewFrameReader returns a reader of the frames in r that refuses payloads
// longer than maxFrame bytes. It allocates nothing until Next is called.
func NewFrameReader(r io.Reader, maxFrame int) *FrameReader {
	return &FrameReader{r: r, maxFrame: maxFrame, nextSlab: firstSlab}
}

// SetMaxFrame changes the payload limit, in bytes, from the next frame on.
func (r *FrameReader) SetMaxFrame(n int) { r.maxFrame = n }

// Buffered reports whether Next will return without reading: a further complete
// frame, or the error that ends the stream, is already there.
func (r *FrameReader) Buffered() bool {
	if r.fatal != nil || r.readErr != nil {
		return true
	}
	have := r.buf[r.start:r.end]
	if len(have) < HeaderLen {
		return false
	}
	h, err := ParseHeader(have, r.maxFrame)
	return err != nil || int64(len(have)) >= HeaderLen+int64(h.Length)
}

// Next returns the next frame. The error is io.EOF when the stream ends between
// frames or inside a header, io.ErrUnexpectedEOF when it ends inside a payload,
// an error of ParseHeader, or the underlying reader's. After an error other than
// os.ErrDeadlineExceeded every further call returns the same one.
func (r *FrameReader) Next() (Frame, error) {
	if r.fatal != nil {
		return Frame{}, r.fatal
	}
	f, err := r.next()
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		r.readErr = nil
		return Frame{}, err
	}
	r.fatal, r.buf, r.start, r.end, r.own = err, nil, 0, 0, nil
	return Frame{}, err
}

func (r *FrameReader) next() (Frame, error) {
	if r.own != nil {
		return r.readLarge()
	}
	if err := r.fill(HeaderLen); err != nil {
		return Frame{}, err
	}
	h, err := ParseHeader(r.buf[r.start:r.end], r.maxFrame)
	if err != nil {
		return Frame{}, err
	}
	n := HeaderLen + int(h.Length)
	if n > largeFrame && n > len(r.buf)-r.start {
		if err := r.startLarge(n); err != nil {
			return Frame{}, err
		}
		return r.readLarge()
	}
	raw, err := r.readSmall(n)
	return Frame{Flags: h.Flags, Raw: raw}, payloadErr(err)
}

// payloadErr is the error for a stream that ends inside a payload.
func payloadErr(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readSmall returns a frame of n bytes as a part of the slab.
func (r *FrameReader) readSmall(n int) ([]byte, error) {
	r.large = false
	if err := r.fill(n); err != nil {
		return nil, err
	}
	raw := r.buf[r.start : r.start+n : r.start+n]
	r.start += n
	return raw, nil
}

// startLarge begins a frame of n bytes in memory of its own. The slab stays for
// the headers and small frames that follow.
func (r *FrameReader) startLarge(n int) error {
	have := r.end - r.start
	size := min(n, max(r.trusted, 2*have, firstSlab))
	if err := r.take(0, size); err != nil {
		return err
	}
	r.own, r.have, r.need = make([]byte, size), have, n
	copy(r.own, r.buf[r.start:r.end])
	r.start = r.end
	return nil
}

// readLarge completes the frame that startLarge began. Its memory grows with the
// bytes that arrive unless frames of that size have been seen.
func (r *FrameReader) readLarge() (Frame, error) {
	for r.have < r.need {
		if r.have == len(r.own) {
			size := min(r.need, 2*r.have)
			if err := r.take(len(r.own), size); err != nil {
				return Frame{}, err
			}
			bigger := make([]byte, size)
			copy(bigger, r.own)
			r.own = bigger
		}
		if r.readErr != nil {
			return Frame{}, payloadErr(r.readErr)
		}
		r.have += r.read(r.own[r.have:])
	}
	raw := r.own
	r.own, r.large, r.trusted = nil, true, 2*r.need
	h, err := ParseHeader(raw, r.need)
	return Frame{Flags: h.Flags, Raw: raw}, err
}

// fill reads until the slab has n bytes to hand out. n is at most largeFrame or
// fits the slab as it is; a slab that is too small is replaced by a larger one as
// the bytes arrive.
func (r *FrameReader) fill(n int) error {
	for r.end-r.start < n {
		if r.readErr != nil {
			return r.readErr
		}
		if len(r.buf)-r.start < n {
			r.newSlab()
		}
		room := r.buf[r.end:]
		if r.large {
			// Probably another large frame: bytes beyond its header would be copied.
			room = room[:n-(r.end-r.start)]
		}
		r.end += r.read(room)
	}
	return nil
}

// newSlab replaces the slab and takes along what was not handed out.
func (r *FrameReader) newSlab() {
	buf := make([]byte, r.nextSlab)
	r.end = copy(buf, r.buf[r.start:r.end])
	r.buf, r.start = buf, 0
	r.nextSlab = min(2*r.nextSlab, maxSlab)
}

// read reads at least one byte into b or sets readErr.
func (r *FrameReader) read(b []byte) int {
	for range maxEmptyReads {
		n, err := r.r.Read(b)
		if n < 0 || n > len(b) {
			r.readErr = errBadRead
			return 0
		}
		if err != nil {
			r.readErr = err
			return n
		}
		if n > 0 {
			return n
		}
	}
	r.readErr = io.ErrNoProgress
	return 0
}
