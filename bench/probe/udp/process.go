package udpprobe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Launcher tells how to start this program again.
type Launcher struct {
	// Program is the executable; "" stands for the running one.
	Program string
	// Args lead to the command made by [Command], such as "probe", "udp".
	Args []string
}

// killDelay is how long a child may keep its pipes open after it was killed.
const killDelay = 2 * time.Second

// child is one of the two processes.
type child struct {
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	reply *json.Decoder
	said  bytes.Buffer // standard error
}

// start runs one of the hidden subcommands with its spec as an argument. pipe
// becomes its descriptor 3. The process is killed when ctx ends.
func (l Launcher) start(ctx context.Context, name string, spec any, pipe *os.File) (*child, error) {
	program := l.Program
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("start %s: %w", name, err)
		}
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	args := append(append([]string{}, l.Args...), name, "--spec", string(text))
	c := &child{name: name, cmd: exec.CommandContext(ctx, program, args...)}
	c.cmd.WaitDelay = killDelay
	c.cmd.ExtraFiles = []*os.File{pipe}
	c.cmd.Stderr = &c.said
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	c.reply = json.NewDecoder(out)
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return c, nil
}

// hear waits for the next object that the child prints.
func (c *child) hear(into any) error {
	if err := c.reply.Decode(into); err != nil {
		return c.explain(err)
	}
	return nil
}

// explain ends the child and returns what it said for itself, err if nothing.
func (c *child) explain(err error) error {
	c.kill()
	if text := strings.TrimSpace(c.said.String()); text != "" {
		if i := strings.LastIndexByte(text, '\n'); i >= 0 {
			text = text[i+1:]
		}
		return fmt.Errorf("the %s process: %s", c.name, text)
	}
	return fmt.Errorf("the %s process ended without a result: %w", c.name, err)
}

// finish waits for a child that has given its result.
func (c *child) finish() error {
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("the %s process: %w", c.name, err)
	}
	return nil
}

// kill ends the child, if it is still there, and reaps it.
func (c *child) kill() {
	if c.cmd.ProcessState != nil {
		return
	}
	_ = c.cmd.Process.Kill() // it may have ended by itself
	_ = c.cmd.Wait()         // reports the kill
}
