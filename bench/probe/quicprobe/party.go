package quicprobe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"felix/daemon"
	"felix/platform"
	"felix/transport"
)

// errOrphaned ends a process whose input has ended.
var errOrphaned = errors.New("the measuring process is gone")

// party is one process of a run.
type party struct {
	spec   spec
	start  chan struct{} // closed by the command to start
	report chan struct{} // closed by the command to report
	failed atomic.Bool   // the reason of a failure was said

	mu  sync.Mutex
	out *json.Encoder
}

// runParty plays the role of spec: it connects, works, reports and returns. What
// goes wrong is said on out before the peers can notice.
func runParty(ctx context.Context, s spec, in io.Reader, out io.Writer) error {
	p := &party{spec: s, start: make(chan struct{}), report: make(chan struct{}), out: json.NewEncoder(out)}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go p.listen(in, cancel)
	e, err := p.open(ctx)
	if err != nil {
		return p.fail(ctx, err)
	}
	// Reads and writes on streams do not end with the context.
	defer context.AfterFunc(ctx, func() { _ = e.close() })()
	if err := p.play(ctx, e); err != nil {
		err = p.fail(ctx, err)
		_ = e.close() // the first error is the one to tell
		return err
	}
	return e.close()
}

// listen takes the commands.
func (p *party) listen(in io.Reader, cancel context.CancelCauseFunc) {
	d := json.NewDecoder(in)
	for {
		var c command
		if err := d.Decode(&c); err != nil {
			cancel(errOrphaned)
			return
		}
		switch c.Do {
		case doStart:
			close(p.start)
		case doReport:
			close(p.report)
		default:
			err := fmt.Errorf("unknown command %q", c.Do)
			p.sayFailure(err)
			cancel(err)
			return
		}
	}
}

func (p *party) say(m message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.out.Encode(m); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// fail says why the process ends and returns that.
func (p *party) fail(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	p.sayFailure(err)
	return err
}

// sayFailure says it once, and does not mind if nobody is listening any more.
func (p *party) sayFailure(err error) {
	if p.failed.Swap(true) {
		return
	}
	var closed *transport.ApplicationError
	consequence := errors.Is(err, transport.ErrIdleTimeout) || errors.As(err, &closed) && closed.Remote
	_ = p.say(message{Failure: &failure{Text: err.Error(), Consequence: consequence}})
}

// open connects to the listening process, or becomes it.
func (p *party) open(ctx context.Context) (*endpoint, error) {
	switch role := p.spec.Role; role {
	case roleReceiver, roleRelay:
		return listen(p.spec.Options, role)
	case roleSender, rolePublisher, roleSubscriber:
		return connect(ctx, p.spec, neighbour[role])
	default:
		return nil, fmt.Errorf("unknown role %q", role)
	}
}

func (p *party) play(ctx context.Context, e *endpoint) error {
	r := ready{Dial: e.dial, Build: daemon.Build()}
	if e.listener != nil {
		r.Addr, r.Cert = e.listener.Addr().String(), e.cert
	}
	if err := p.say(message{Ready: &r}); err != nil {
		return err
	}
	if err := e.awaitPeers(ctx); err != nil {
		return err
	}
	if err := wait(ctx, p.start); err != nil {
		return err
	}
	before, _ := platform.ProcessUsage() // zero where the system does not tell
	d, err := p.work(ctx, e)
	if err != nil {
		return err
	}
	if err := p.say(message{Done: &d}); err != nil {
		return err
	}
	if err := wait(ctx, p.report); err != nil {
		return err
	}
	return p.say(message{Side: e.side(before)})
}

// work does what the role is there for.
func (p *party) work(ctx context.Context, e *endpoint) (done, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m := newMeter()
	var tell func(int64)
	if p.spec.Progress {
		tell = func(n int64) { _ = p.say(message{Progress: &n}) } // the end is noticed elsewhere
	}
	w := watch(m, patience+e.o.Interval, tell, cancel)
	d, err := e.work(ctx, m)
	d.Stall = w.stop()
	return d, err
}

// work is that of the endpoint's role; m counts what arrives or is sent.
func (e *endpoint) work(ctx context.Context, m *meter) (done, error) {
	pings := e.o.pings()
	switch e.role {
	case roleSender, rolePublisher:
		conns := e.conns[neighbour[e.role]]
		if pings {
			return e.ping(ctx, conns[0], m)
		}
		return e.send(ctx, conns, m)
	case roleReceiver, roleSubscriber:
		conns := e.conns[neighbour[e.role]]
		if pings {
			return e.answer(ctx, conns[0], m)
		}
		return e.receive(ctx, conns, m)
	}
	if pings {
		return e.forwardPings(ctx, m)
	}
	return e.forward(ctx, m)
}

func (e *endpoint) awaitPeers(ctx context.Context) error {
	switch e.role {
	case roleReceiver:
		return e.accept(ctx, roleSender)
	case roleRelay:
		return e.accept(ctx, roleSubscriber, rolePublisher)
	}
	return nil
}

// wait waits for a command.
func wait(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// all runs n functions at once and returns the first error, or the cause of ctx
// if that ends earlier. It does not wait for the others then: they end when the
// endpoint is closed.
func all(ctx context.Context, n int, f func(i int) error) error {
	results := make(chan error, n)
	for i := range n {
		go func() { results <- f(i) }()
	}
	for range n {
		select {
		case err := <-results:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
