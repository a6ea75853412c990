package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Launcher tells how to start this program, or one of the same kind, as a child.
type Launcher struct {
	// Program is the executable; "" stands for the running one.
	Program string
	// Args lead to the command that has the hidden subcommands, such as
	// "probe", "raw".
	Args []string
}

// ChildOptions are the particulars of one child.
type ChildOptions struct {
	// Env is the environment; nil: that of this process.
	Env []string
	// Files become the child's descriptors from 3 on.
	Files []*os.File
}

// killDelay is how long a child's pipes may stay open after it was killed.
const killDelay = 2 * time.Second

// Child is a process that takes JSON objects on its standard input and prints
// others on its standard output. Tell, Hear and the rest may be called by
// different goroutines, each by one at a time.
type Child struct {
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *json.Decoder
	said  bytes.Buffer // standard error; read after the end only
	reap  func() error
	ended chan struct{}
}

// Start runs the hidden subcommand name with its spec as JSON in the flag
// --spec. A child is not reached by the signals that a terminal sends to the
// program; it is killed when ctx ends, and sees the end of its input when the
// program is gone. The caller must Wait for it or Kill it.
func (l Launcher) Start(ctx context.Context, name string, spec any, o ChildOptions) (*Child, error) {
	c, err := l.start(ctx, name, spec, o)
	if err != nil {
		return nil, fmt.Errorf("start the %s process: %w", name, err)
	}
	return c, nil
}

func (l Launcher) start(ctx context.Context, name string, spec any, o ChildOptions) (*Child, error) {
	program := l.Program
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	args := append(append([]string{}, l.Args...), name, "--spec", string(text))
	c := &Child{name: name, cmd: exec.CommandContext(ctx, program, args...), ended: make(chan struct{})}
	c.cmd.WaitDelay = killDelay
	c.cmd.Env = o.Env
	c.cmd.ExtraFiles = o.Files
	c.cmd.Stderr = &c.said
	c.cmd.SysProcAttr = ownGroup()
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = json.NewDecoder(out)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	c.reap = sync.OnceValue(func() error {
		defer close(c.ended)
		return c.cmd.Wait()
	})
	return c, nil
}

// Name returns the name of the subcommand that the child runs.
func (c *Child) Name() string { return c.name }

// PID returns the number of the process.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Tell sends an object. An error means that the child is gone or about to go.
func (c *Child) Tell(v any) error {
	if err := json.NewEncoder(c.in).Encode(v); err != nil {
		return fmt.Errorf("tell the %s process: %w", c.name, err)
	}
	return nil
}

// Hear waits for the next object. When the child has ended instead, it returns
// how; the error wraps io.EOF if that was without one. A child that talks
// nonsense is killed.
func (c *Child) Hear(into any) error {
	err := c.out.Decode(into)
	if err == nil {
		return nil
	}
	cut := errors.Is(err, io.ErrUnexpectedEOF)
	if cut || errors.Is(err, io.EOF) {
		if end := c.Wait(); end != nil {
			return end
		}
		if !cut {
			return fmt.Errorf("the %s process ended without a result: %w", c.name, io.EOF)
		}
	}
	c.Kill()
	return fmt.Errorf("the %s process: %w", c.name, err)
}

// Wait reaps the child and returns how it ended, nil if without an error. Its
// output must have been read.
func (c *Child) Wait() error {
	err := c.reap()
	if err == nil {
		return nil
	}
	if text := lastWords(c.said.String()); text != "" {
		return fmt.Errorf("the %s process: %s", c.name, text)
	}
	return fmt.Errorf("the %s process ended without a result: %w", c.name, err)
}

// Kill ends the child, if it is still there, and reaps it.
func (c *Child) Kill() {
	c.signalKill()
	_ = c.reap() // reports the kill
}

func (c *Child) signalKill() {
	select {
	case <-c.ended:
	default:
		_ = c.cmd.Process.Kill() // it may have ended by itself
	}
}

// lastWords picks the line of a child's standard error that says why it ended.
func lastWords(text string) string {
	text = strings.TrimSpace(text)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return strings.TrimSpace(line) // the stack traces follow it
		}
	}
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}
