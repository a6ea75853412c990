package session

import (
	"sync"
	"sync/atomic"
	"time"

	"felix/broker"
	"felix/wire"
)

// input reads the frames of one client-opened stream. Reads are bounded in time
// during the handshake, and again once the connection drains.
type input struct {
	stream ReceiveStream
	frames *wire.FrameReader
	idle   time.Duration // of a draining stream
	conn   *connection
	stage  *broker.WakeupHistogram
	woken  int // frames since the reader last had to wait

	handshaking bool // holds one of the connection's handshakes

	bounded atomic.Bool // draining or stopped: reads need a deadline each

	mu       sync.Mutex // orders the deadlines
	draining bool
	stopped  bool
}

// discardBuffer is the size of the reads whose bytes are thrown away.
const discardBuffer = 16 << 10

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

func newInput(s ReceiveStream, conn *connection) *input {
	in := &input{stream: s, idle: conn.server.cfg.DrainIdle, conn: conn, stage: conn.server.readStage}
	in.frames = wire.NewFrameReader(in, conn.server.cfg.MaxFrameBytesBeforeAuth)
	return in
}

// begin waits until the stream may authenticate, for which it then has limited
// time. It returns errStopped if there is no use in it any more.
func (in *input) begin() error {
	select {
	case in.conn.handshakes <- struct{}{}:
	case <-in.conn.accepting.Done():
		return errStopped
	}
	in.handshaking = true
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.bounded.Load() {
		in.deadline(time.Now().Add(in.conn.server.cfg.AuthTimeout))
	}
	return nil
}

// authenticated lifts the limits of the handshake.
func (in *input) authenticated() {
	in.frames.SetMaxFrame(in.conn.server.cfg.MaxFrameBytes)
	in.handshakeDone()
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.bounded.Load() {
		in.deadline(time.Time{})
	}
}

// handshakeDone lets another stream of the connection authenticate.
func (in *input) handshakeDone() {
	if in.handshaking {
		in.handshaking = false
		<-in.conn.handshakes
	}
}

// drain makes the stream end once the client has been silent for a while.
func (in *input) drain() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.draining = true
	in.bounded.Store(true)
	in.bound()
}

// stop makes the stream end before its next frame.
func (in *input) stop() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.stopped = true
	in.bounded.Store(true)
	in.bound()
}

// bound sets the deadline of the next read. in.mu is held.
func (in *input) bound() {
	if in.stopped {
		in.deadline(longAgo)
	} else if in.draining {
		in.deadline(time.Now().Add(in.idle))
	}
}

// deadline bounds the pending and the next reads. A stream that takes no
// deadline has ended, which the next read will tell.
func (in *input) deadline(t time.Time) { _ = in.stream.SetReadDeadline(t) }

// Read implements io.Reader for the frame reader.
func (in *input) Read(p []byte) (int, error) {
	if in.bounded.Load() {
		in.mu.Lock()
		in.bound()
		in.mu.Unlock()
	}
	return in.stream.Read(p)
}

// buffered reports whether next returns without waiting for the client.
func (in *input) buffered() bool { return in.frames.Buffered() }

// next returns the next frame.
func (in *input) next() (wire.Frame, error) {
	if in.bounded.Load() && in.isStopped() {
		return wire.Frame{}, errStopped
	}
	if in.woken > 0 && !in.frames.Buffered() {
		in.account()
	}
	f, err := in.frames.Next()
	if err == nil {
		in.woken++
	}
	return f, err
}

// account counts the frames since the last wait.
func (in *input) account() {
	in.stage.Record(in.woken)
	in.conn.frames.Add(uint64(in.woken))
	in.conn.server.count.add(FramesRead, uint64(in.woken))
	in.woken = 0
}

func (in *input) isStopped() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.stopped
}

func (in *input) isDraining() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.draining || in.stopped
}

// discard reads and drops up to n bytes of what the client is still sending,
// within d.
func (in *input) discard(n int64, d time.Duration) {
	in.mu.Lock()
	stopped := in.stopped
	if !stopped {
		in.deadline(time.Now().Add(d))
	}
	in.mu.Unlock()
	buf := make([]byte, discardBuffer)
	for n > 0 && !stopped {
		got, err := in.stream.Read(buf)
		if err != nil {
			return
		}
		n -= int64(got)
	}
}
