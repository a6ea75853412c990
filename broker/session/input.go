package session

import (
	"errors"
	"os"
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

	since       time.Time // when the stream was accepted
	handshaking bool      // holds one of the connection's handshakes

	held     hold      // what the large frame in hand was charged
	onWait   func()    // called before it waits for room; may be nil
	progress int       // bytes read since checked
	checked  time.Time // when the time for the next piece of a large frame began
	limited  bool      // a deadline for that piece is set

	bounded atomic.Bool // draining or stopped: reads need a deadline each

	mu       sync.Mutex // orders the deadlines
	draining bool
	stopped  bool
	stopping chan struct{} // closed with stopped
}

// discardBuffer is the size of the reads whose bytes are thrown away.
const discardBuffer = 16 << 10

// minProgress is how many bytes of a large frame, unless it is its rest, the
// client has to send within Config.FrameStallTimeout.
const minProgress = 256 << 10

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

func newInput(s ReceiveStream, conn *connection) *input {
	in := &input{
		stream: s, idle: conn.server.cfg.DrainIdle, conn: conn, stage: conn.server.readStage,
		since: time.Now(), held: hold{share: conn.frameMemory}, stopping: make(chan struct{}),
	}
	in.frames = wire.NewFrameReader(in, conn.server.cfg.MaxFrameBytesBeforeAuth)
	in.frames.SetBudget(in)
	return in
}

// begin waits until the stream may authenticate. Its time for that runs from
// when it was accepted, the wait included. It returns errStopped if there is no
// use in it any more, and os.ErrDeadlineExceeded if the time was over before.
func (in *input) begin() error {
	end := in.since.Add(in.conn.server.cfg.AuthTimeout)
	if err := in.handshake(end); err != nil {
		return err
	}
	in.handshaking = true
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.bounded.Load() {
		in.deadline(end)
	}
	return nil
}

// handshake waits until fewer streams of the connection than may are
// authenticating.
func (in *input) handshake(end time.Time) error {
	select {
	case in.conn.handshakes <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	select {
	case in.conn.handshakes <- struct{}{}:
		return nil
	case <-in.conn.accepting.Done():
		return errStopped
	case <-timer.C:
		return os.ErrDeadlineExceeded
	}
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
	if !in.stopped {
		in.stopped = true
		close(in.stopping)
	}
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
	n, err := in.stream.Read(p)
	if in.limited {
		if in.progress += n; in.progress >= minProgress {
			in.limit()
		}
	}
	return n, err
}

// Take implements wire.Budget: it charges the growth of a large frame, and gives
// the client time for the next piece of it. While it waits nothing is read, which
// the client sees as flow control.
func (in *input) Take(n int) error {
	if in.handshaking {
		return nil // bounded by their number and the limits of the handshake
	}
	if err := in.charge(n); err != nil {
		return err
	}
	in.limit()
	return nil
}

// charge adds n bytes to what the frame in hand was charged.
func (in *input) charge(n int) error {
	if !in.held.take(int64(n), in.onWait, in.conn.conn.Context().Done(), in.stopping) {
		return errStopped
	}
	return nil
}

// limit begins the time for the next piece of a large frame. So that frames that
// follow each other quickly set few deadlines, one that is younger than a
// quarter of the time stays, and one that is not needed any more is left to
// expire (see next).
func (in *input) limit() {
	in.progress = 0
	now, d := time.Now(), in.conn.server.cfg.FrameStallTimeout
	if in.limited && now.Sub(in.checked) < d/4 {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.bounded.Load() {
		in.limited, in.checked = true, now
		in.deadline(now.Add(d))
	}
}

// expired says what it means that a read deadline has passed, and forgets one
// that no frame needs any more.
func (in *input) expired(err error) error {
	if !in.limited || in.bounded.Load() {
		return err
	}
	in.limited = false
	if in.held.bytes > 0 {
		return errFrameStalled
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.bounded.Load() {
		in.deadline(time.Time{})
	}
	return nil
}

// release gives back what was charged for the frame in hand. It must be done
// with, or held by others at their own charge.
func (in *input) release() {
	if in.held.bytes > 0 {
		in.held.giveAll()
	}
}

// buffered reports whether next returns without waiting for the client.
func (in *input) buffered() bool { return in.frames.Buffered() }

// next returns the next frame. The one before must be done with.
func (in *input) next() (wire.Frame, error) {
	if in.bounded.Load() && in.isStopped() {
		return wire.Frame{}, errStopped
	}
	if in.woken > 0 && !in.frames.Buffered() {
		in.account()
	}
	in.release()
	for {
		f, err := in.frames.Next()
		if err == nil {
			in.woken++
			return f, nil
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = in.expired(err)
		}
		if err != nil {
			return f, err
		}
	}
}

// message decodes a JSON message, whose memory is charged like that of the frame.
func (in *input) message(f wire.Frame) (wire.Message, error) {
	payload := f.Payload()
	if len(payload) > smallHold && !in.handshaking {
		// Its parts, and the event frame that may be made of them.
		if err := in.charge(wire.DecodeCost(payload) + len(payload)); err != nil {
			return nil, err
		}
	}
	return wire.ParseMessage(payload)
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
