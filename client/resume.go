package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"felix/wire"
)

// resume makes the subscription again after its connection was lost.
func (s *Subscription) resume(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	var (
		es   *eventStream
		from *wire.Start
	)
	attempts, err := s.c.persist(ctx, func(ctx context.Context) (err error) {
		es, from, err = s.restart(ctx)
		return err
	})
	switch {
	case s.closed.Load():
		if err == nil {
			es.close()
		}
		return ErrClosed
	case err != nil && ctx.Err() != nil:
		return ctx.Err() // the next call tries again
	case err != nil:
		return s.finish(err)
	}
	s.attach(es)
	s.resumed(from, attempts)
	if s.o.failOnGap && s.jump {
		s.jump = false
		return &GapError{}
	}
	return nil
}

// restart makes one attempt to go on after the last record received.
func (s *Subscription) restart(ctx context.Context) (es *eventStream, from *wire.Start, err error) {
	switch {
	case s.known:
		from = &wire.Start{Kind: wire.StartOffset, Offset: s.want}
	case s.o.start == startEarliest && !s.began():
		from = s.firstStart()
	}
	es, err = s.start(ctx, from)
	if from == nil || from.Kind != wire.StartOffset {
		return es, from, err
	}
	var renumbered bool
	var cursor *CursorError
	switch {
	case errors.As(err, &cursor):
		renumbered = cursor.Reason == CursorInFuture
	case err != nil:
		return nil, from, err
	default:
		if renumbered, err = s.renumbered(ctx); err == nil && !renumbered {
			return es, from, nil
		}
		es.close()
		if err != nil {
			return nil, from, err
		}
	}
	// The record is gone, or the numbers mean other records now: everything that the broker still has is new.
	from = &wire.Start{Kind: wire.StartEarliest}
	if es, err = s.start(ctx, from); err == nil && renumbered {
		s.known = false
	}
	return es, from, err
}

// renumbered reports whether the broker has begun to number its records anew, as one that keeps them in memory does when it
// is restarted: then the record before the one to go on with is not the last one received. Records in between would be
// missing without a trace.
func (s *Subscription) renumbered(ctx context.Context) (bool, error) {
	last, ok := s.cur.last()
	if !ok || s.want == 0 {
		return false, nil
	}
	at := s.want - 1
	es, err := s.start(ctx, &wire.Start{Kind: wire.StartOffset, Offset: at})
	var cursor *CursorError
	if errors.As(err, &cursor) {
		return cursor.Reason == CursorInFuture, nil
	}
	if err != nil {
		return false, err
	}
	defer es.close()
	_ = es.st.SetReadDeadline(time.Now().Add(s.c.cfg.RequestTimeout))
	defer context.AfterFunc(ctx, func() { _ = es.st.SetReadDeadline(past) })()
	f, err := es.fr.Next()
	if err != nil {
		return false, streamErr(ctx, "resume", err)
	}
	events, err := parseEvents(f, es.id)
	if err != nil {
		return false, err
	}
	first, ok := events.first()
	return ok && events.hasBase && events.base == at && !bytes.Equal(first, last), nil
}

// resumed takes note of a subscription that was made again.
func (s *Subscription) resumed(from *wire.Start, attempts int) {
	s.count.resumptions.Add(1)
	s.c.count.resumptions.Add(1)
	r := Resumption{Cause: s.cause, Attempts: attempts}
	switch {
	case from != nil && from.Kind == wire.StartOffset:
		r.FromOffset, r.Offset = true, from.Offset
	case from != nil && !s.began():
	case from != nil && s.known:
		s.unsure = true // the first offset will tell what is missing
	default:
		s.count.unknown.Add(1)
		s.jump = true
	}
	s.c.log(slog.LevelInfo, "subscription resumed", "stream", s.stream, "subscription", s.ID(),
		"attempts", attempts, "from", startText(from), "error", s.cause)
	s.cause = nil
	if s.o.onResume != nil {
		s.o.onResume(r)
	}
}

func startText(start *wire.Start) string {
	switch {
	case start == nil:
		return "latest"
	case start.Kind == wire.StartOffset:
		return fmt.Sprintf("offset %d", start.Offset)
	}
	return "earliest"
}
