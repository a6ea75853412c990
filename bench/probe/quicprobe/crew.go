package quicprobe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"felix/bench/probe"
)

// member is a process of the run, as the measuring process sees it.
type member struct {
	role  string
	child *probe.Child
	ready *ready
	done  *done
	side  *side
	ended bool // without an error, after it gave its side

	failed bool // it has said why it ends
}

// event is something that a member said, or how it ended.
type event struct {
	from *member
	said message
	err  error
}

func (e event) consequence() bool { return e.said.Failure != nil && e.said.Failure.Consequence }

// crew are the processes of a run. Its methods are for one goroutine.
type crew struct {
	launcher probe.Launcher
	env      []string
	progress func(int64)

	members []*member
	events  chan event
	over    chan struct{} // closed by disband
	hearing sync.WaitGroup
}

func newCrew(l probe.Launcher, env []string, progress func(int64)) *crew {
	return &crew{launcher: l, env: env, progress: progress, events: make(chan event), over: make(chan struct{})}
}

// hire starts a process and waits until it is ready.
func (c *crew) hire(ctx context.Context, s spec) (*member, error) {
	child, err := c.launcher.Start(ctx, s.Role, s, probe.ChildOptions{Env: c.env})
	if err != nil {
		return nil, err
	}
	m := &member{role: s.Role, child: child}
	c.members = append(c.members, m)
	c.hearing.Go(func() { c.hear(m) })
	return m, c.await(ctx, func(m *member) bool { return m.ready != nil })
}

// hear passes on what a member says until its end.
func (c *crew) hear(m *member) {
	for {
		e := event{from: m}
		e.err = m.child.Hear(&e.said)
		select {
		case c.events <- e:
		case <-c.over:
			return
		}
		if e.err != nil {
			return
		}
	}
}

// tell sends a command to all, in the order they were hired.
func (c *crew) tell(ctx context.Context, do string) error {
	for _, m := range c.members {
		if err := m.child.Tell(command{Do: do}); err != nil {
			return c.explain(ctx, event{from: m, err: err, said: message{Failure: &failure{Consequence: true}}})
		}
	}
	return nil
}

// await handles what happens until the condition holds for every member.
func (c *crew) await(ctx context.Context, holds func(*member) bool) error {
	for {
		all := true
		for _, m := range c.members {
			all = all && holds(m)
		}
		if all {
			return nil
		}
		select {
		case e := <-c.events:
			if failed := c.take(&e); failed {
				return c.explain(ctx, e)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// take notes an event and reports whether it is a failure, whose error it sets.
func (c *crew) take(e *event) bool {
	m, said := e.from, e.said
	switch {
	case e.err != nil && m.failed: // as it said
		return false
	case errors.Is(e.err, io.EOF) && m.side != nil:
		m.ended = true
		return false
	case errors.Is(e.err, io.EOF):
		e.err = fmt.Errorf("the %s process ended before the run did", m.role)
		return true
	case e.err != nil:
		return true
	case said.Failure != nil:
		m.failed = true
		e.err = fmt.Errorf("the %s process: %s", m.role, said.Failure.Text)
		return true
	case said.Ready != nil:
		m.ready = said.Ready
	case said.Done != nil:
		m.done = said.Done
	case said.Side != nil:
		m.side = said.Side
	case said.Progress != nil && c.progress != nil:
		c.progress(*said.Progress)
	}
	return false
}

// causeWait is how long the process that is at fault may take to show, after
// another one has noticed.
const causeWait = time.Second

// explain returns the error of a failure, or a better one: a process whose peer
// has gone says so, and only the peer knows why.
func (c *crew) explain(ctx context.Context, e event) error {
	late := time.After(causeWait)
	for e.consequence() {
		select {
		case next := <-c.events:
			if c.take(&next) {
				e = next
			}
		case <-late:
			return e.err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if ctx.Err() != nil { // which kills the processes
		return context.Cause(ctx)
	}
	return e.err
}

// disband kills and reaps whoever is left.
func (c *crew) disband() {
	close(c.over)
	for _, m := range c.members {
		m.child.Kill()
	}
	c.hearing.Wait()
}
