package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"felix/client"
	"felix/internal/testkit"
	"felix/transport"
)

// childEnv holds the childSpec of a client process. Such a process is this test
// binary once more: a Go client that can be stopped and killed.
const childEnv = "FELIX_E2E_CHILD"

// childSpec says what a client process does.
type childSpec struct {
	Session bool // everything a client can do, else one subscription
	Stream  string

	Addr, CAFile, Tenant, Namespace, Token string

	IdleTimeout  time.Duration
	StreamWindow uint64 // bytes
}

// childReport is what a client process knows; it prints one every few
// milliseconds, as a line of JSON.
type childReport struct {
	Err string // the first error

	// Of the subscription: events received, events that came again or too
	// late, events left out, and the number after the last one.
	Received, Repeated, Missed, Next uint64

	// Of a session: what was done in each role.
	Published, Cached uint64
	Events            [2]uint64

	Lost        uint64 // connections
	Connections map[string]int
	Goroutines  int
}

// child is a client process as its test sees it.
type child struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer // once the process has ended
	stdin  io.Closer
	ended  chan struct{}

	mu     sync.Mutex
	latest childReport
}

func startChild(t *testing.T, d *testkit.Daemon, spec childSpec) *child {
	t.Helper()
	e, token := readEndpoint(t, d)
	spec.Addr, spec.CAFile, spec.Tenant, spec.Namespace, spec.Token = e.Addr, e.CAFile, e.Tenant, e.Namespace, token
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.Command(self), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	c.cmd.Stderr = &c.stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go c.listen(out)
	t.Cleanup(func() {
		c.kill()
		if t.Failed() {
			t.Logf("client process %d: %+v\n%s", c.cmd.Process.Pid, c.report(), c.stderr.String())
		}
	})
	return c
}

func (c *child) listen(out io.Reader) {
	defer close(c.ended)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var r childReport
		if json.Unmarshal(lines.Bytes(), &r) == nil { // a killed process leaves half a line
			c.mu.Lock()
			c.latest = r
			c.mu.Unlock()
		}
	}
}

func (c *child) report() childReport {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest
}

func (c *child) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("signal a client process: %v", err)
	}
}

// kill ends the process, even a stopped one, and waits for its end.
func (c *child) kill() {
	if c.cmd.ProcessState != nil {
		return
	}
	_ = c.cmd.Process.Kill() // it may have ended by itself
	<-c.ended
	_ = c.cmd.Wait() // reports the kill
}

// until waits for a report that satisfies cond.
func (c *child) until(t *testing.T, within time.Duration, what string, cond func(childReport) bool) {
	t.Helper()
	testkit.Eventually(t, within, what, func() bool { return cond(c.report()) })
}

// numbered is the payload of event n: the number, and zeros up to size.
func numbered(n uint64, size int) []byte {
	b := make([]byte, size)
	binary.BigEndian.PutUint64(b, n)
	return b
}

// childState is what the loops of a client process count.
type childState struct {
	received, repeated, missed, next, published, cached atomic.Uint64

	events [2]atomic.Uint64
	err    atomic.Pointer[string]
}

func (s *childState) failed(err error) {
	text := err.Error()
	s.err.CompareAndSwap(nil, &text)
}

// childMain is the program of a client process. It ends with its standard
// input.
func childMain(text string) int {
	var spec childSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, err := client.Connect(ctx, client.Config{
		Addr: spec.Addr, CAFile: spec.CAFile, Tenant: spec.Tenant, Namespace: spec.Namespace, Token: spec.Token,
		EventConns: 2, Retry: client.AtLeastOnce,
		Transport: transport.Config{
			IdleTimeout: spec.IdleTimeout, KeepAlive: spec.IdleTimeout / 4,
			StreamWindow: transport.Window{Initial: spec.StreamWindow, Max: spec.StreamWindow},
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var s childState
	if spec.Session {
		go s.publish(ctx, c, spec.Stream)
		go s.cache(ctx, c)
		for i := range s.events {
			go s.count(ctx, c, spec.Stream, i)
		}
	} else {
		go s.subscribe(ctx, c, spec.Stream)
	}
	go func() {
		for ctx.Err() == nil {
			s.print(c)
			time.Sleep(20 * time.Millisecond)
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin) // its end is the sign
	cancel()
	closing, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	_ = c.Close(closing) // the daemon may be gone
	return 0
}

func (s *childState) print(c *client.Client) {
	r := childReport{
		Received: s.received.Load(), Repeated: s.repeated.Load(), Missed: s.missed.Load(), Next: s.next.Load(),
		Published: s.published.Load(), Cached: s.cached.Load(),
		Lost: c.Stats().ConnectionsLost, Connections: map[string]int{}, Goroutines: runtime.NumGoroutine(),
	}
	for i := range s.events {
		r.Events[i] = s.events[i].Load()
	}
	if err := s.err.Load(); err != nil {
		r.Err = *err
	}
	for _, conn := range c.Connections() {
		r.Connections[conn.Role]++
	}
	text, err := json.Marshal(r)
	if err == nil {
		fmt.Println(string(text))
	}
}

// subscribe reads numbered events and checks that they are in order.
func (s *childState) subscribe(ctx context.Context, c *client.Client, stream string) {
	sub, err := c.Subscribe(ctx, stream)
	for err == nil {
		var e client.Event
		if e, err = sub.Next(ctx); err != nil {
			break
		}
		n, next := binary.BigEndian.Uint64(e.Payload), s.next.Load()
		if n < next {
			s.repeated.Add(1)
			continue
		}
		s.missed.Add(n - next)
		s.received.Add(1)
		s.next.Store(n + 1)
	}
	s.failed(err)
}

// beat is the pause between two actions of a session.
const beat = 20 * time.Millisecond

func (s *childState) publish(ctx context.Context, c *client.Client, stream string) {
	for ctx.Err() == nil {
		if err := c.Publish(ctx, stream, []byte("beat")); err != nil {
			s.failed(fmt.Errorf("publish: %w", err))
		} else {
			s.published.Add(1)
		}
		time.Sleep(beat)
	}
}

func (s *childState) cache(ctx context.Context, c *client.Client) {
	cache := c.Cache("session")
	for ctx.Err() == nil {
		if err := cache.Put(ctx, "key", []byte("beat"), 0); err != nil {
			s.failed(fmt.Errorf("cache put: %w", err))
		} else {
			s.cached.Add(1)
		}
		time.Sleep(beat)
	}
}

func (s *childState) count(ctx context.Context, c *client.Client, stream string, i int) {
	sub, err := c.Subscribe(ctx, stream)
	for err == nil {
		if _, err = sub.Next(ctx); err == nil {
			s.events[i].Add(1)
		}
	}
	s.failed(fmt.Errorf("subscription %d: %w", i, err))
}
