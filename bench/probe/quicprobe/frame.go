package quicprobe

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
)

// A frame is the length of its payload (4 bytes, big-endian) and the payload.
// The payload of a mass transfer is the number of the stream, the number of the
// frame on it (8 bytes each), and pattern, from its start, repeated.
const prefixLen = 4

// pattern has a prime length: no shift by a packet or a power of two maps it
// onto itself. It is small enough to stay in the processor's nearest cache.
var pattern = func() []byte {
	p := make([]byte, 4091)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range p {
		p[i] = byte(random.Uint32())
	}
	return p
}()

// fill writes pattern over p.
func fill(p []byte) {
	for len(p) > 0 {
		p = p[copy(p, pattern):]
	}
}

// filled reports whether p is as fill leaves it.
func filled(p []byte) bool {
	for len(p) > 0 {
		n := min(len(p), len(pattern))
		if !bytes.Equal(p[:n], pattern[:n]) {
			return false
		}
		p = p[n:]
	}
	return true
}

// batchBytes is how much is read or written at once where frames are small.
const batchBytes = 64 << 10

// frameMaker makes the frames of one stream, several at once if they are small.
// The memory is reused.
type frameMaker struct {
	block  []byte // whole frames, ready but for their numbers
	frame  int    // bytes of one
	number uint64 // of the next one
}

func newFrameMaker(stream, chunk int) *frameMaker {
	m := &frameMaker{frame: prefixLen + chunk}
	m.block = make([]byte, max(batchBytes/m.frame, 1)*m.frame)
	for f := m.block; len(f) > 0; f = f[m.frame:] {
		binary.BigEndian.PutUint32(f, uint32(chunk))
		binary.BigEndian.PutUint64(f[prefixLen:], uint64(stream))
		fill(f[prefixLen+headLen : m.frame])
	}
	return m
}

// next returns up to limit frames, valid until the following call.
func (m *frameMaker) next(limit int64) []byte {
	n := int(min(limit, int64(len(m.block)/m.frame)))
	for i := range n {
		binary.BigEndian.PutUint64(m.block[i*m.frame+prefixLen+8:], m.number)
		m.number++
	}
	return m.block[:n*m.frame]
}

// frameReader takes frames from a stream. Not for concurrent use.
type frameReader struct {
	r     io.Reader
	limit int // largest payload
	buf   []byte
	have  int // bytes in buf
	whole int // of them, in whole frames
}

// newFrameReader reads frames of up to limit bytes of payload. Its buffer ends
// just behind the length of the frame after the largest, so that next to nothing
// has to be moved when a frame was taken out.
func newFrameReader(r io.Reader, limit int) *frameReader {
	return &frameReader{r: r, limit: limit, buf: make([]byte, max(batchBytes, 2*prefixLen+limit))}
}

// read waits for bytes and returns how many came. Errors are those of the
// stream, io.EOF between frames only, io.ErrUnexpectedEOF inside one.
func (f *frameReader) read() (int, error) {
	n, err := f.r.Read(f.buf[f.have:])
	f.have += n
	for f.have-f.whole >= prefixLen {
		length := int(binary.BigEndian.Uint32(f.buf[f.whole:]))
		if length > f.limit {
			return n, fmt.Errorf("a frame of %d bytes, where %d is the largest", length, f.limit)
		}
		if f.whole+prefixLen+length > f.have {
			break
		}
		f.whole += prefixLen + length
	}
	if err == io.EOF && f.have > f.whole {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// frames returns all whole frames, valid until drop.
func (f *frameReader) frames() []byte { return f.buf[:f.whole] }

// drop forgets them.
func (f *frameReader) drop() {
	if f.whole > 0 {
		f.have = copy(f.buf, f.buf[f.whole:f.have])
		f.whole = 0
	}
}

// one waits for a frame and returns its payload, valid until dropOne.
func (f *frameReader) one() ([]byte, error) {
	for f.whole == 0 {
		if _, err := f.read(); err != nil && f.whole == 0 {
			return nil, err
		}
	}
	return f.buf[prefixLen : prefixLen+int(binary.BigEndian.Uint32(f.buf))], nil
}

// dropOne forgets the frame that one has returned.
func (f *frameReader) dropOne() {
	n := prefixLen + int(binary.BigEndian.Uint32(f.buf))
	f.have = copy(f.buf, f.buf[n:f.have])
	f.whole -= n
}

// verifier checks that the frames of one stream are the ones that were sent, in
// order.
type verifier struct {
	chunk   int
	stream  uint64 // known from the first frame on
	frames  uint64
	payload uint64 // bytes
}

// check takes whole frames.
func (v *verifier) check(frames []byte) error {
	for len(frames) > 0 {
		n := prefixLen + int(binary.BigEndian.Uint32(frames))
		if err := v.checkOne(frames[prefixLen:n]); err != nil {
			return err
		}
		frames = frames[n:]
	}
	return nil
}

func (v *verifier) checkOne(payload []byte) error {
	if len(payload) != v.chunk {
		return fmt.Errorf("a frame of %d bytes arrived, %d were sent", len(payload), v.chunk)
	}
	stream, number := binary.BigEndian.Uint64(payload), binary.BigEndian.Uint64(payload[8:])
	if v.frames == 0 {
		v.stream = stream
	}
	if stream != v.stream || number != v.frames {
		return fmt.Errorf("frame %d of stream %d arrived where frame %d of stream %d was due", number, stream, v.frames, v.stream)
	}
	if !filled(payload[headLen:]) {
		return fmt.Errorf("frame %d of stream %d arrived with other content", number, stream)
	}
	v.frames++
	v.payload += uint64(len(payload))
	return nil
}
