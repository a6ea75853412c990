package client

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"felix/transport"
	"felix/wire"
)

const (
	// inlineWrite is how long a publishing goroutine writes itself, which spares a wakeup, before it leaves the rest to
	// another one and listens to its context again. A write takes longer only when the broker or the path is saturated.
	inlineWrite = 10 * time.Millisecond
	// coalesceBytes is up to which size small frames are written together: a write larger than a packet costs a round
	// trip through the scheduler.
	coalesceBytes = 64 << 10
	// reasonWait is how long a broker may take to say why it has stopped reading a stream.
	reasonWait = time.Second
	// stallChecks is into how many parts the ack timeout is divided.
	stallChecks = 4
)

// pubStream is an open publish stream. Requests are written in the order of submit; answers are matched by id.
type pubStream struct {
	lane  *lane
	ctl   *control
	ended chan struct{} // closed when the broker has ended the stream or it has failed

	// The writer's, which is the goroutine that has set writing.
	batch   []*request // being written
	scratch []byte

	mu        sync.Mutex
	lastID    uint64
	queue     []*request // not written yet
	waiting   unanswered
	writing   bool
	finishing bool  // no more requests
	finished  bool  // CloseWrite was called
	err       error // the stream has failed

	stall    *time.Timer // looks at the oldest request; runs while stalling
	stalling bool
	stallID  uint64 // the oldest request at the last check
	stalls   int    // checks it has seen
}

func newPubStream(l *lane, ctl *control) *pubStream {
	return &pubStream{lane: l, ctl: ctl, ended: make(chan struct{})}
}

// submit sends a request for which the lane has room, and may write it itself. The owner is told the result, perhaps
// before submit returns.
func (ps *pubStream) submit(r *request) {
	ps.mu.Lock()
	if err := ps.admit(r); err != nil {
		ps.complete(r, err)
		ps.mu.Unlock()
		return
	}
	ps.queue = append(ps.queue, r)
	if r.acked() {
		ps.waiting.push(r)
		ps.startStall()
	}
	if ps.writing {
		ps.mu.Unlock()
		return
	}
	ps.writing = true
	ps.mu.Unlock()
	ps.writeInline()
}

// admit numbers a request.
func (ps *pubStream) admit(r *request) error {
	r.writing, r.began, r.settled, r.result = false, false, false, nil
	if ps.err != nil {
		return &unsentError{ps.err}
	}
	if ps.finishing {
		return &unsentError{ErrClosed}
	}
	if err := r.number(ps.lastID+1, ps.ctl.flags, ps.lane.c.cfg.MaxFrameBytes); err != nil {
		return err
	}
	if r.acked() {
		ps.lastID++
	}
	count := &ps.lane.c.count
	count.publishRequests.Add(1)
	count.publishMessages.Add(uint64(r.count))
	count.publishBytes.Add(uint64(r.bytes))
	return nil
}

// withdraw takes back a request of which nothing was written. Its owner is not told.
func (ps *pubStream) withdraw(r *request) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	i := slices.Index(ps.queue, r)
	if i < 0 {
		return false
	}
	ps.queue = slices.Delete(ps.queue, i, i+1)
	if r.acked() {
		ps.waiting.take(r.id)
	}
	ps.lane.room.release(r.size())
	return true
}

// writeInline writes what was queued by the caller, within inlineWrite.
func (ps *pubStream) writeInline() {
	chunk := ps.next()
	if chunk == nil {
		return
	}
	_ = ps.ctl.st.SetWriteDeadline(time.Now().Add(inlineWrite))
	n, err := ps.ctl.st.Write(chunk)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		ps.hand(chunk[n:])
		return
	}
	if err != nil {
		ps.handFailure(err)
	} else if ps.written(nil) && ps.more() {
		ps.hand(nil)
	}
}

// handFailure leaves the end of a failed write to a goroutine: it may take a moment.
func (ps *pubStream) handFailure(err error) {
	if !ps.lane.c.spawn(func() { ps.writeFailed(err) }) {
		ps.written(ErrClosed)
	}
}

// writeFailed ends the writing of a batch. A broker that stops reading says why on the other direction, where it is worth
// waiting for.
func (ps *pubStream) writeFailed(err error) {
	var stopped *transport.StreamError
	if errors.As(err, &stopped) && stopped.Remote {
		timer := time.NewTimer(reasonWait)
		defer timer.Stop()
		select {
		case <-ps.ended:
		case <-timer.C:
		}
	}
	ps.written(err)
}

// hand leaves the writing to a goroutine, beginning with the rest of a chunk.
func (ps *pubStream) hand(rest []byte) {
	started := ps.lane.c.spawn(func() {
		_ = ps.ctl.st.SetWriteDeadline(time.Time{})
		for chunk := rest; ; chunk = nil {
			if len(chunk) == 0 && len(ps.batch) == 0 {
				if chunk = ps.next(); chunk == nil {
					return
				}
			}
			_, err := ps.ctl.st.Write(chunk)
			if err != nil {
				ps.writeFailed(err)
				return
			}
			if !ps.written(nil) {
				return
			}
		}
	})
	if !started {
		ps.written(ErrClosed)
	}
}

// more reports whether the writer has something left to do; otherwise it is not the writer any more.
func (ps *pubStream) more() bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if len(ps.queue) > 0 && ps.err == nil {
		return true
	}
	ps.rest()
	return false
}

// next returns the bytes to be written next. Nil says that there are none, and the caller is not the writer any more.
func (ps *pubStream) next() []byte {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if len(ps.queue) == 0 || ps.err != nil {
		ps.rest()
		return nil
	}
	n, size := 1, len(ps.queue[0].out)
	for n < len(ps.queue) && size+len(ps.queue[n].out) <= coalesceBytes {
		size += len(ps.queue[n].out)
		n++
	}
	ps.batch = append(ps.batch, ps.queue[:n]...)
	ps.queue = slices.Delete(ps.queue, 0, n)
	for _, r := range ps.batch {
		r.writing, r.began = true, true
	}
	if n == 1 {
		return ps.batch[0].out
	}
	ps.scratch = ps.scratch[:0]
	for _, r := range ps.batch {
		ps.scratch = append(ps.scratch, r.out...)
	}
	return ps.scratch
}

// rest ends the job of the writer.
func (ps *pubStream) rest() {
	ps.writing = false
	if ps.finishing && !ps.finished && ps.err == nil {
		ps.finished = true
		if err := ps.ctl.st.CloseWrite(); err != nil {
			ps.failLocked(err)
		}
	}
}

// written ends the writing of a batch and reports whether the stream is still good.
func (ps *pubStream) written(err error) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if err != nil {
		ps.failLocked(err)
	}
	for i, r := range ps.batch {
		ps.batch[i] = nil
		r.writing = false
		switch {
		case r.settled:
			ps.complete(r, r.result)
		case !r.acked() && err != nil:
			ps.complete(r, lostRequest(err))
		case !r.acked():
			ps.complete(r, nil)
		}
	}
	ps.batch = ps.batch[:0]
	if ps.err != nil {
		ps.writing = false
	}
	return ps.err == nil
}

// complete tells the owner of a request its result.
func (ps *pubStream) complete(r *request, err error) {
	if err != nil {
		ps.lane.c.count.publishFailures.Add(1)
	}
	ps.lane.room.release(r.size())
	r.owner.done(r, err)
}

// lostRequest is the failure of a request whose answer will not come.
func lostRequest(err error) error {
	return &ConnectionError{Op: "publish", OutcomeUnknown: true, Err: err}
}

// read takes the broker's answers until the stream ends.
func (ps *pubStream) read() {
	defer close(ps.ended)
	for {
		f, err := ps.ctl.fr.Next()
		if err == nil {
			ps.ctl.link.heard.Add(1)
			err = ps.answer(f)
		}
		if err != nil {
			ps.readEnded(err)
			return
		}
	}
}

// answer handles one frame from the broker.
func (ps *pubStream) answer(f wire.Frame) error {
	if f.Flags == wire.FlagPublishAck {
		ack, err := wire.ParsePublishAck(f.Payload())
		if err != nil {
			return err
		}
		if ack.Failed {
			return ps.settle(ack.RequestID, refusal(ack.Message))
		}
		return ps.settle(ack.RequestID, nil)
	}
	m, err := message(f)
	if err != nil {
		return err
	}
	switch m := m.(type) {
	case *wire.PublishOK:
		return ps.settle(m.RequestID, nil)
	case *wire.PublishError:
		return ps.settle(m.RequestID, refusal(m.Message))
	case *wire.Error:
		// It names no request; the broker works in order, so it is about the oldest one.
		ps.settleOldest(refusal(m.Message))
		return refusal(m.Message)
	}
	return unexpected("publish", m)
}

func (ps *pubStream) settle(id uint64, result error) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	r := ps.waiting.take(id)
	if r != nil && r.began {
		ps.result(r, result)
		return nil
	}
	err := &ProtocolError{Op: "publish", Detail: fmt.Sprintf("answer to request %d, which does not wait for one", id)}
	if r != nil {
		ps.complete(r, &unsentError{err})
	}
	return err
}

func (ps *pubStream) settleOldest(result error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if r := ps.waiting.oldest(); r != nil && r.began {
		ps.waiting.take(r.id)
		ps.result(r, result)
	}
}

// result notes the result of a request that was taken out of waiting.
func (ps *pubStream) result(r *request, err error) {
	if r.writing {
		r.settled, r.result = true, err
		return
	}
	ps.complete(r, err)
}

// readEnded ends the stream because nothing more can be read from it.
func (ps *pubStream) readEnded(err error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	switch {
	case ps.lane.c.life.Err() != nil:
		err = ErrClosed
	case errors.Is(err, io.EOF) && ps.finished && ps.waiting.oldest() == nil:
		err = ErrClosed
	case errors.Is(err, io.EOF):
		err = errStreamEnded
	}
	ps.failLocked(err)
}

// failLocked ends the stream: what was not written is given back, what was not answered is lost.
func (ps *pubStream) failLocked(err error) {
	if ps.err != nil {
		return
	}
	ps.err = streamFailure(err)
	ps.lane.cur.CompareAndSwap(ps, nil)
	if ps.stall != nil {
		ps.stall.Stop()
	}
	for _, r := range ps.waiting.all() {
		if r.began {
			ps.result(r, lostRequest(err))
		} else {
			ps.complete(r, &unsentError{ps.err})
		}
	}
	for _, r := range ps.queue {
		if !r.acked() {
			ps.complete(r, &unsentError{ps.err})
		}
	}
	ps.queue = nil
	if !errors.Is(err, ErrClosed) {
		ps.lane.c.log(slog.LevelWarn, "publish stream lost", "error", err)
	}
	ps.ctl.abandon()
}

// streamFailure is what a request gets that was not sent because of err.
func streamFailure(err error) error {
	var (
		auth   *AuthError
		server *ServerError
	)
	if errors.Is(err, ErrClosed) || errors.As(err, &auth) || errors.As(err, &server) {
		return err
	}
	return &ConnectionError{Op: "publish", Err: err}
}

// finish ends the stream after what it has.
func (ps *pubStream) finish() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.finishing = true
	if !ps.writing {
		ps.rest()
	}
}

// startStall makes sure that the oldest request is looked at.
func (ps *pubStream) startStall() {
	if ps.stalling {
		return
	}
	ps.stalling, ps.stalls = true, 0
	every := ps.lane.c.cfg.AckTimeout / stallChecks
	if ps.stall == nil {
		ps.stall = time.AfterFunc(every, ps.checkStall)
	} else {
		ps.stall.Reset(every)
	}
}

// checkStall fails the stream if its oldest request has not been answered for too long.
func (ps *pubStream) checkStall() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	oldest := ps.waiting.oldest()
	if oldest == nil || ps.err != nil {
		ps.stalling = false
		return
	}
	if oldest.id != ps.stallID || ps.stalls == 0 {
		ps.stallID, ps.stalls = oldest.id, 0
	}
	if ps.stalls++; ps.stalls > stallChecks {
		ps.failLocked(ErrAckTimeout)
		return
	}
	ps.stall.Reset(ps.lane.c.cfg.AckTimeout / stallChecks)
}
