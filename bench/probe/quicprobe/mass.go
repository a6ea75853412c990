package quicprobe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"felix/transport"
)

// send writes all frames: stream s of connection c carries the share of the
// number c*Streams+s.
func (e *endpoint) send(ctx context.Context, conns []*transport.Conn, m *meter) (done, error) {
	err := all(ctx, e.o.Connections*e.o.Streams, func(i int) error {
		s, err := conns[i/e.o.Streams].OpenUniStream(ctx)
		if err != nil {
			return err
		}
		frames := newFrameMaker(i, e.o.Chunk)
		for left := e.o.shareOf(i); left > 0; {
			block := frames.next(left)
			if _, err := s.Write(block); err != nil {
				return err
			}
			m.add(len(block))
			left -= int64(len(block) / frames.frame)
		}
		return s.CloseWrite()
	})
	return done{Payload: e.o.payload(), Frames: e.o.frames()}, err
}

// receive takes the frames of all streams and checks them.
func (e *endpoint) receive(ctx context.Context, conns []*transport.Conn, m *meter) (done, error) {
	c := collector{o: e.o, ended: make([]bool, e.o.Connections*e.o.Streams)}
	err := eachStream(ctx, e.o, conns, func(_ int, s *transport.ReceiveStream) error {
		return c.collect(s, m)
	})
	if err != nil {
		return done{}, err
	}
	return done{Payload: c.payload, Frames: c.frames, Elapsed: m.elapsed()}, nil
}

// eachStream accepts the streams of all connections and runs f on each, with the
// number of its connection.
func eachStream(ctx context.Context, o Options, conns []*transport.Conn, f func(conn int, s *transport.ReceiveStream) error) error {
	return all(ctx, o.Connections*o.Streams, func(i int) error {
		conn := i / o.Streams
		s, err := conns[conn].AcceptUniStream(ctx)
		if err != nil {
			return err
		}
		return f(conn, s)
	})
}

// collector brings the streams of a receiver together.
type collector struct {
	o Options

	mu      sync.Mutex
	ended   []bool // by number of the stream
	payload int64
	frames  int64
}

// collect reads one stream to its end.
func (c *collector) collect(s io.Reader, m *meter) error {
	in := newFrameReader(s, c.o.Chunk)
	v := verifier{chunk: c.o.Chunk}
	for {
		n, err := in.read()
		if n > 0 {
			m.add(n)
		}
		if cerr := v.check(in.frames()); cerr != nil {
			return cerr
		}
		in.drop()
		if errors.Is(err, io.EOF) {
			return c.end(v)
		}
		if err != nil {
			return err
		}
	}
}

// end notes a stream that has ended.
func (c *collector) end(v verifier) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v.stream >= uint64(len(c.ended)) || c.ended[v.stream] {
		return fmt.Errorf("stream %d ended, and was not expected to", v.stream)
	}
	if want := c.o.shareOf(int(v.stream)); v.frames != uint64(want) {
		return fmt.Errorf("stream %d ended after %d frames, %d were sent", v.stream, v.frames, want)
	}
	c.ended[v.stream] = true
	c.payload += int64(v.payload)
	c.frames += int64(v.frames)
	return nil
}

// forward takes the frames of every publisher's stream and writes them to a
// stream of its own to the subscriber.
func (e *endpoint) forward(ctx context.Context, m *meter) (done, error) {
	err := eachStream(ctx, e.o, e.conns[rolePublisher], func(conn int, in *transport.ReceiveStream) error {
		out, err := e.conns[roleSubscriber][conn].OpenUniStream(ctx)
		if err != nil {
			return err
		}
		return forwardFrames(in, out, e.o.Chunk, m)
	})
	return done{}, err
}

// halfCloser is a stream to write to.
type halfCloser interface {
	io.Writer
	CloseWrite() error
}

// forwardFrames writes whole frames on as they come, until the end.
func forwardFrames(in io.Reader, out halfCloser, limit int, m *meter) error {
	frames := newFrameReader(in, limit)
	for {
		n, err := frames.read()
		if n > 0 {
			m.add(n)
		}
		if whole := frames.frames(); len(whole) > 0 {
			if _, err := out.Write(whole); err != nil {
				return err
			}
			frames.drop()
		}
		if errors.Is(err, io.EOF) {
			return out.CloseWrite()
		}
		if err != nil {
			return err
		}
	}
}
