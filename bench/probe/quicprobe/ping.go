package quicprobe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"felix/transport"
)

// A ping's payload starts with its number and the time it was sent; the answer
// has the same number and the time the ping arrived (8 bytes each, nanoseconds
// since 1970 of the host's clock, which all processes share).

// maxWarmup is how many pings go before those that count, if they are as many.
const maxWarmup = 1000

// warmup is the number of pings that do not count.
func (o Options) warmup() int { return min(o.Count, maxWarmup) }

// maxUnanswered is how many paced requests may wait for answers at once.
const maxUnanswered = 1 << 16

// pinger sends pings on a stream and takes the answers.
type pinger struct {
	o     Options
	s     *transport.Stream
	m     *meter
	frame []byte
	in    *frameReader

	delivery, roundTrip *hdrhistogram.Histogram
}

// ping sends them all: one at a time, or one each interval.
func (e *endpoint) ping(ctx context.Context, c *transport.Conn, m *meter) (done, error) {
	s, err := c.OpenStream(ctx)
	if err != nil {
		return done{}, err
	}
	p := &pinger{
		o: e.o, s: s, m: m, in: newFrameReader(s, e.o.Payload),
		frame:    make([]byte, prefixLen+e.o.Payload),
		delivery: newHistogram(), roundTrip: newHistogram(),
	}
	binary.BigEndian.PutUint32(p.frame, uint32(e.o.Payload))
	fill(p.frame[prefixLen+headLen:])
	// Reads and writes do not end with ctx: a run that is given up closes the stream.
	if err := all(ctx, 1, func(int) error { return p.run(ctx) }); err != nil {
		return done{}, err
	}
	d := done{Frames: p.roundTrip.TotalCount(), Delivery: percentiles(p.delivery), RoundTrip: percentiles(p.roundTrip)}
	d.Payload = d.Frames * int64(e.o.Payload)
	return d, nil
}

func (p *pinger) run(ctx context.Context) error {
	send := p.closedLoop
	if p.o.Interval > 0 {
		send = p.paced
	}
	if err := send(ctx); err != nil {
		return err
	}
	if err := p.s.CloseWrite(); err != nil {
		return err
	}
	_, err := p.in.one()
	if err == nil {
		return errors.New("an answer to no ping arrived")
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func (p *pinger) closedLoop(context.Context) error {
	warmup := p.o.warmup()
	for i := range warmup + p.o.Count {
		sent := time.Now()
		if err := p.write(uint64(i), sent); err != nil {
			return err
		}
		arrived, err := p.read(uint64(i))
		if err != nil {
			return err
		}
		if i < warmup {
			continue
		}
		if err := p.record(sent, arrived, time.Since(sent)); err != nil {
			return err
		}
	}
	return nil
}

// paced sends a request each interval, whether the one before was answered or
// not. The time of one that a blocked write has delayed counts from when it was
// due.
func (p *pinger) paced(ctx context.Context) error {
	times := make(chan time.Time, min(p.o.Count, maxUnanswered))
	return all(ctx, 2, func(i int) error {
		if i == 0 {
			return p.writePaced(ctx, times)
		}
		for i := range p.o.Count {
			arrived, err := p.read(uint64(i))
			if err != nil {
				return err
			}
			sent := <-times
			if err := p.record(sent, arrived, time.Since(sent)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *pinger) writePaced(ctx context.Context, times chan<- time.Time) error {
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var free time.Time // when the write before was through
	for i := range p.o.Count {
		due := start.Add(time.Duration(i) * p.o.Interval)
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		sent := time.Now()
		if free.After(due) {
			sent = due
		}
		times <- sent
		if err := p.write(uint64(i), sent); err != nil {
			return err
		}
		free = time.Now()
	}
	return nil
}

func (p *pinger) write(number uint64, sent time.Time) error {
	head := p.frame[prefixLen:]
	binary.BigEndian.PutUint64(head, number)
	binary.BigEndian.PutUint64(head[8:], uint64(sent.UnixNano()))
	_, err := p.s.Write(p.frame)
	return err
}

// read waits for an answer and returns when its ping arrived.
func (p *pinger) read(number uint64) (arrived int64, err error) {
	answer, err := p.in.one()
	if err != nil {
		return 0, err
	}
	defer p.in.dropOne()
	if len(answer) < headLen || binary.BigEndian.Uint64(answer) != number {
		return 0, fmt.Errorf("ping %d got the answer to another one", number)
	}
	p.m.add(len(answer))
	return int64(binary.BigEndian.Uint64(answer[8:])), nil
}

// record notes one ping. The time there comes from two processes' looks at the
// host's clock, which is checked against the round trip on the monotonic one.
func (p *pinger) record(sent time.Time, arrived int64, roundTrip time.Duration) error {
	there := time.Duration(arrived - sent.UnixNano())
	if there < 0 || there > roundTrip+time.Millisecond {
		return fmt.Errorf("the host's clock was set during the run: a ping arrived %v after it was sent, its answer after %v", there, roundTrip)
	}
	return errors.Join(p.delivery.RecordValue(max(1, int64(there))), p.roundTrip.RecordValue(max(1, int64(roundTrip))))
}

// answer sends an answer to every ping until the stream ends: a short one, as a
// broker acknowledges, or to a paced request one of the same size.
func (e *endpoint) answer(ctx context.Context, c *transport.Conn, m *meter) (done, error) {
	s, err := c.AcceptStream(ctx)
	if err != nil {
		return done{}, err
	}
	return done{}, all(ctx, 1, func(int) error { return e.answerAll(s, m) })
}

func (e *endpoint) answerAll(s *transport.Stream, m *meter) error {
	size := headLen
	if e.o.Interval > 0 {
		size = e.o.Payload
	}
	reply := make([]byte, prefixLen+size)
	binary.BigEndian.PutUint32(reply, uint32(size))
	fill(reply[prefixLen+headLen:])
	in := newFrameReader(s, e.o.Payload)
	for {
		ping, err := in.one()
		if errors.Is(err, io.EOF) {
			return s.CloseWrite()
		}
		if err != nil {
			return err
		}
		now := time.Now().UnixNano()
		if len(ping) != e.o.Payload || !filled(ping[headLen:]) {
			return fmt.Errorf("a ping of %d bytes arrived with other content than the %d that were sent", len(ping), e.o.Payload)
		}
		copy(reply[prefixLen:], ping[:8])
		m.add(len(ping))
		in.dropOne()
		binary.BigEndian.PutUint64(reply[prefixLen+8:], uint64(now))
		if _, err := s.Write(reply); err != nil {
			return err
		}
	}
}

// forwardPings passes pings on to the subscriber, and its answers back.
func (e *endpoint) forwardPings(ctx context.Context, m *meter) (done, error) {
	in, err := e.conns[rolePublisher][0].AcceptStream(ctx)
	if err != nil {
		return done{}, err
	}
	out, err := e.conns[roleSubscriber][0].OpenStream(ctx)
	if err != nil {
		return done{}, err
	}
	from, to := []*transport.Stream{in, out}, []*transport.Stream{out, in}
	return done{}, all(ctx, 2, func(i int) error { return forwardFrames(from[i], to[i], e.o.Payload, m) })
}
