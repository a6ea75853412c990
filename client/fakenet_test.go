package client

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"felix/transport"
)

// pipe is one direction of an in-memory stream. At most window bytes wait in it, as under QUIC's flow control.
type pipe struct {
	mu     sync.Mutex
	moved  sync.Cond
	buf    []byte
	window int
	writer *fakeConn // the end that writes
	eof    bool
	readBy error // what readers get
	writBy error // what writers get
	readDL deadline
	wrDL   deadline
}

type deadline struct {
	at    time.Time
	timer *time.Timer
}

func newPipe(window int) *pipe {
	p := &pipe{window: window}
	p.moved.L = &p.mu
	return p
}

func (p *pipe) setDeadline(d *deadline, t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
	d.at = t
	if !t.IsZero() {
		d.timer = time.AfterFunc(time.Until(t), func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.moved.Broadcast()
		})
	}
	p.moved.Broadcast()
	return nil
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.readBy != nil:
			return 0, p.readBy
		case p.readDL.passed():
			return 0, os.ErrDeadlineExceeded
		case len(p.buf) > 0:
			n := copy(b, p.buf)
			p.buf = p.buf[n:]
			p.moved.Broadcast()
			return n, nil
		case p.eof:
			return 0, io.EOF
		}
		p.moved.Wait()
	}
}

func (p *pipe) write(b []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.writBy != nil:
			return n, p.writBy
		case p.eof:
			return n, transport.ErrStreamClosed
		case len(b) == 0:
			return n, nil
		case p.wrDL.passed():
			return n, os.ErrDeadlineExceeded
		}
		if m := min(len(b), p.window-len(p.buf)); m > 0 {
			p.buf = append(p.buf, b[:m]...)
			b = b[m:]
			n += m
			p.moved.Broadcast()
			continue
		}
		p.moved.Wait()
	}
}

// breakOff sets the errors that are not set yet.
func (p *pipe) breakOff(reader, writer error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.readBy == nil {
		p.readBy = reader
	}
	if p.writBy == nil {
		p.writBy = writer
	}
	p.moved.Broadcast()
}

func (p *pipe) closeWrite() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.eof = true
	p.moved.Broadcast()
	return nil
}

// fakeStream is one end of a stream; in or out is nil for a unidirectional one.
type fakeStream struct{ in, out *pipe }

func (s *fakeStream) Read(b []byte) (int, error)         { return s.in.read(b) }
func (s *fakeStream) Write(b []byte) (int, error)        { return s.out.write(b) }
func (s *fakeStream) CloseWrite() error                  { return s.out.closeWrite() }
func (s *fakeStream) SetReadDeadline(t time.Time) error  { return s.in.setDeadline(&s.in.readDL, t) }
func (s *fakeStream) SetWriteDeadline(t time.Time) error { return s.out.setDeadline(&s.out.wrDL, t) }

func (s *fakeStream) CancelRead(code uint64) {
	s.in.breakOff(&transport.StreamError{Code: code}, &transport.StreamError{Code: code, Remote: true})
}

func (s *fakeStream) CancelWrite(code uint64) {
	s.out.breakOff(&transport.StreamError{Code: code, Remote: true}, &transport.StreamError{Code: code})
}

// fakeConn is one end of an in-memory connection.
type fakeConn struct {
	window int
	peer   *fakeConn
	ctx    context.Context
	cancel context.CancelCauseFunc
	bidi   chan *fakeStream // opened by the peer
	uni    chan *fakeStream

	mu    *sync.Mutex // shared by both ends
	pipes *[]*pipe
}

func newFakeConns(window int) (client, server *fakeConn) {
	var mu sync.Mutex
	var pipes []*pipe
	end := func() *fakeConn {
		c := &fakeConn{window: window, mu: &mu, pipes: &pipes}
		c.ctx, c.cancel = context.WithCancelCause(context.Background())
		c.bidi, c.uni = make(chan *fakeStream, 10000), make(chan *fakeStream, 10000)
		return c
	}
	client, server = end(), end()
	client.peer, server.peer = server, client
	return client, server
}

func (c *fakeConn) Context() context.Context { return c.ctx }

// pipe makes a pipe that ends with the connection and is written by the given end.
func (c *fakeConn) pipe(writer *fakeConn) (*pipe, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil, context.Cause(c.ctx)
	}
	p := newPipe(c.window)
	p.writer = writer
	*c.pipes = append(*c.pipes, p)
	return p, nil
}

func (c *fakeConn) open() (*fakeStream, error) {
	a, err := c.pipe(c)
	if err != nil {
		return nil, err
	}
	b, err := c.pipe(c.peer)
	if err != nil {
		return nil, err
	}
	c.peer.bidi <- &fakeStream{in: a, out: b}
	return &fakeStream{in: b, out: a}, nil
}

func (c *fakeConn) OpenStream(context.Context) (stream, error) {
	s, err := c.open()
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (c *fakeConn) OpenUniStream(context.Context) (sendStream, error) {
	p, err := c.pipe(c)
	if err != nil {
		return nil, err
	}
	c.peer.uni <- &fakeStream{in: p}
	return &fakeStream{out: p}, nil
}

func (c *fakeConn) AcceptUniStream(ctx context.Context) (recvStream, error) {
	s, err := c.accept(ctx, c.uni)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (c *fakeConn) AcceptStream(ctx context.Context) (stream, error) {
	s, err := c.accept(ctx, c.bidi)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (c *fakeConn) accept(ctx context.Context, queue chan *fakeStream) (*fakeStream, error) {
	select {
	case s := <-queue:
		return s, nil
	case <-c.ctx.Done():
		return nil, context.Cause(c.ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *fakeConn) CloseWithError(code uint64, reason string) error {
	c.end(&transport.ApplicationError{Code: code, Reason: reason},
		&transport.ApplicationError{Code: code, Reason: reason, Remote: true})
	return nil
}

// lose ends the connection as a crash of the peer does.
func (c *fakeConn) lose() { c.end(transport.ErrStatelessReset, transport.ErrStatelessReset) }

func (c *fakeConn) end(here, there error) {
	c.mu.Lock()
	pipes := *c.pipes
	*c.pipes = nil
	c.cancel(here)
	c.peer.cancel(there)
	c.mu.Unlock()
	for _, p := range pipes {
		if p.writer == c {
			p.breakOff(there, here)
		} else {
			p.breakOff(here, there)
		}
	}
}

// serverConn is the broker's side of a connection.
type serverConn interface {
	AcceptStream(ctx context.Context) (stream, error)
	OpenUniStream(ctx context.Context) (sendStream, error)
	AcceptUniStream(ctx context.Context) (recvStream, error)
	CloseWithError(code uint64, reason string) error
	Context() context.Context
}

// fakeNetwork dials an in-memory broker.
type fakeNetwork struct {
	window int

	mu    sync.Mutex
	serve func(serverConn) // nil: nobody answers
	conns []*fakeConn      // server ends
	dials int
}

var errUnreachable = errors.New("nobody answers")

func (n *fakeNetwork) dial(ctx context.Context) (conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dials++
	if n.serve == nil {
		return nil, errUnreachable
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c, s := newFakeConns(n.window)
	n.conns = append(n.conns, s)
	serve := n.serve
	go serve(s)
	return c, nil
}

// cut loses every connection.
func (n *fakeNetwork) cut() {
	n.mu.Lock()
	conns := n.conns
	n.conns = nil
	n.mu.Unlock()
	for _, c := range conns {
		c.lose()
	}
}

func (n *fakeNetwork) live() (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		if c.ctx.Err() == nil {
			count++
		}
	}
	return count
}

func (n *fakeNetwork) setServe(f func(serverConn)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.serve = f
}
