package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// memLink is an in-memory connection with the properties of QUIC that matter to
// a session: streams with FIN, STOP_SENDING and RESET_STREAM, flow control per
// stream and per connection, limits on streams, deadlines, and a close that
// discards what was not read yet. Index 0 is the client's end, 1 the server's.
type memLink struct {
	mu      sync.Mutex
	changed sync.Cond

	streamWindow int    // bytes unread per stream and direction
	connWindow   [2]int // bytes unread that an end has granted in all
	unread       [2]int // at an end
	uniCredit    int    // streams the server may still open

	bidi [2][]*memStream // opened by an end and not accepted yet
	uni  [2][]*memHalf

	closed    error
	closeCode uint64
	ctx       context.Context
	cancel    context.CancelCauseFunc
	halves    []*memHalf
}

type memAppError struct {
	code   uint64
	reason string
}

func (e *memAppError) Error() string {
	return fmt.Sprintf("connection closed: code %d %q", e.code, e.reason)
}

func (e *memAppError) Unwrap() error { return net.ErrClosed }

type memStreamError struct {
	code  uint64
	reset bool
}

func (e *memStreamError) Error() string {
	return fmt.Sprintf("stream error: code %d, reset %v", e.code, e.reset)
}

const (
	clientEnd = 0
	serverEnd = 1
)

func newMemLink() *memLink {
	l := &memLink{streamWindow: 256 << 10, connWindow: [2]int{4 << 20, 4 << 20}, uniCredit: 1 << 20}
	l.changed.L = &l.mu
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	return l
}

func (l *memLink) close(code uint64, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		return
	}
	l.closed, l.closeCode = &memAppError{code, reason}, code
	for _, h := range l.halves {
		h.done(l.closed)
	}
	l.cancel(l.closed)
	l.changed.Broadcast()
}

// wait blocks until the next change. l.mu is held.
func (l *memLink) wait() { l.changed.Wait() }

// until makes waiters look again at time t.
func (l *memLink) until(t time.Time) *time.Timer {
	return time.AfterFunc(time.Until(t), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.changed.Broadcast()
	})
}

// memHalf is one direction of a stream, towards the end `to`.
type memHalf struct {
	link *memLink
	to   int
	// From here on guarded by link.mu.
	buf            []byte
	fin, finRead   bool
	stop, reset    *uint64
	readBy         time.Time
	writeBy        time.Time
	readT, writeT  *time.Timer
	ctx            context.Context // of the writing side
	cancel         context.CancelCauseFunc
	written, taken int
}

func (l *memLink) half(to int) *memHalf {
	h := &memHalf{link: l, to: to}
	h.ctx, h.cancel = context.WithCancelCause(l.ctx)
	l.halves = append(l.halves, h)
	return h
}

func (h *memHalf) done(err error) {
	h.cancel(err)
	if h.readT != nil {
		h.readT.Stop()
	}
	if h.writeT != nil {
		h.writeT.Stop()
	}
}

func passed(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }

func (h *memHalf) read(p []byte) (int, error) {
	l := h.link
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		switch {
		case l.closed != nil:
			return 0, l.closed
		case h.stop != nil:
			return 0, errors.New("read after cancel")
		case passed(h.readBy):
			return 0, fmt.Errorf("read: %w", os.ErrDeadlineExceeded)
		case h.reset != nil:
			return 0, &memStreamError{*h.reset, true}
		case len(h.buf) > 0:
			n := copy(p, h.buf)
			h.buf = h.buf[n:]
			h.taken += n
			l.unread[h.to] -= n
			l.changed.Broadcast()
			return n, nil
		case h.fin:
			h.finRead = true
			return 0, io.EOF
		}
		l.wait()
	}
}

func (h *memHalf) write(p []byte) (int, error) {
	l := h.link
	l.mu.Lock()
	defer l.mu.Unlock()
	done := 0
	for {
		switch {
		case l.closed != nil:
			return done, l.closed
		case h.stop != nil:
			return done, &memStreamError{*h.stop, false}
		case h.reset != nil || h.fin:
			return done, errors.New("write after close")
		case len(p) == 0:
			return done, nil
		case passed(h.writeBy):
			return done, fmt.Errorf("write: %w", os.ErrDeadlineExceeded)
		}
		n := min(len(p), l.streamWindow-len(h.buf), l.connWindow[h.to]-l.unread[h.to])
		if n <= 0 {
			l.wait()
			continue
		}
		h.buf = append(h.buf, p[:n]...)
		h.written += n
		l.unread[h.to] += n
		p, done = p[n:], done+n
		l.changed.Broadcast()
	}
}

func (h *memHalf) closeWrite() error {
	l := h.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		return l.closed
	}
	if h.stop != nil || h.reset != nil {
		return errors.New("close of a cancelled stream")
	}
	h.fin = true
	h.done(net.ErrClosed)
	l.changed.Broadcast()
	return nil
}

// cancelRead is STOP_SENDING; the writer answers with a reset.
func (h *memHalf) cancelRead(code uint64) {
	l := h.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.stop != nil || h.finRead || h.reset != nil {
		return
	}
	h.stop = &code
	l.unread[h.to] -= len(h.buf)
	h.buf = nil
	if !h.fin {
		h.done(&memStreamError{code, false})
	}
	l.changed.Broadcast()
}

func (h *memHalf) cancelWrite(code uint64) {
	l := h.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.reset != nil || h.stop != nil {
		return
	}
	h.reset = &code
	l.unread[h.to] -= len(h.buf)
	h.buf = nil
	h.done(net.ErrClosed)
	l.changed.Broadcast()
}

func (h *memHalf) setRead(t time.Time) error {
	l := h.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		return l.closed
	}
	h.readBy = t
	if h.readT != nil {
		h.readT.Stop()
		h.readT = nil
	}
	if !t.IsZero() {
		h.readT = l.until(t)
	}
	l.changed.Broadcast()
	return nil
}

func (h *memHalf) setWrite(t time.Time) error {
	l := h.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		return l.closed
	}
	h.writeBy = t
	if h.writeT != nil {
		h.writeT.Stop()
		h.writeT = nil
	}
	if !t.IsZero() {
		h.writeT = l.until(t)
	}
	l.changed.Broadcast()
	return nil
}

// memStream is one end of a bidirectional stream; memReceive and memSend are
// those of a unidirectional one.
type memStream struct{ in, out *memHalf }

func (s *memStream) Read(p []byte) (int, error)         { return s.in.read(p) }
func (s *memStream) CancelRead(code uint64)             { s.in.cancelRead(code) }
func (s *memStream) SetReadDeadline(t time.Time) error  { return s.in.setRead(t) }
func (s *memStream) Write(p []byte) (int, error)        { return s.out.write(p) }
func (s *memStream) CloseWrite() error                  { return s.out.closeWrite() }
func (s *memStream) CancelWrite(code uint64)            { s.out.cancelWrite(code) }
func (s *memStream) SetWriteDeadline(t time.Time) error { return s.out.setWrite(t) }
func (s *memStream) Context() context.Context           { return s.out.ctx }

// memConn is the server's end.
type memConn struct{ link *memLink }

func accept[T any](ctx context.Context, l *memLink, queue *[]T) (T, error) {
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.changed.Broadcast()
	})
	defer stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	var none T
	for {
		switch {
		case l.closed != nil:
			return none, l.closed
		case ctx.Err() != nil:
			return none, context.Cause(ctx)
		case len(*queue) > 0:
			s := (*queue)[0]
			*queue = (*queue)[1:]
			return s, nil
		}
		l.wait()
	}
}

func (c memConn) AcceptStream(ctx context.Context) (Stream, error) {
	s, err := accept(ctx, c.link, &c.link.bidi[clientEnd])
	if err != nil {
		return nil, err
	}
	return &memStream{in: s.out, out: s.in}, nil
}

func (c memConn) AcceptUniStream(ctx context.Context) (ReceiveStream, error) {
	h, err := accept(ctx, c.link, &c.link.uni[clientEnd])
	if err != nil {
		return nil, err
	}
	return &memStream{in: h}, nil
}

func (c memConn) OpenUniStream(ctx context.Context) (SendStream, error) {
	l := c.link
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.changed.Broadcast()
	})
	defer stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.closed == nil && ctx.Err() == nil && l.uniCredit == 0 {
		l.wait()
	}
	if l.closed != nil {
		return nil, l.closed
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	l.uniCredit--
	h := l.half(clientEnd)
	l.uni[serverEnd] = append(l.uni[serverEnd], h)
	l.changed.Broadcast()
	return &memStream{out: h}, nil
}

func (c memConn) CloseWithError(code uint64, reason string) error {
	c.link.close(code, reason)
	return nil
}

func (c memConn) Context() context.Context { return c.link.ctx }
func (c memConn) ID() uint64               { return 1 }
func (c memConn) RemoteAddr() net.Addr     { return &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4433} }

// The client's end.

func (l *memLink) openStream() *memStream {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &memStream{in: l.half(clientEnd), out: l.half(serverEnd)}
	l.bidi[clientEnd] = append(l.bidi[clientEnd], s)
	l.changed.Broadcast()
	return s
}

func (l *memLink) openUni() *memStream {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.half(serverEnd)
	l.uni[clientEnd] = append(l.uni[clientEnd], h)
	l.changed.Broadcast()
	return &memStream{out: h}
}

func (l *memLink) acceptUni(ctx context.Context) (*memStream, error) {
	h, err := accept(ctx, l, &l.uni[serverEnd])
	if err != nil {
		return nil, err
	}
	return &memStream{in: h}, nil
}

// stopped returns the code of a STOP_SENDING that the other end sent.
func (s *memStream) stopped() (uint64, bool) {
	l := s.out.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.out.stop == nil {
		return 0, false
	}
	return *s.out.stop, true
}
