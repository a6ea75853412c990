package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"felix/client"
	"felix/daemon"
)

// pubOptions are the flags of felix pub.
type pubOptions struct {
	raw   bool
	ack   string
	batch int
	key   string
	keyed bool
}

// pubReport is what felix pub --json prints.
type pubReport struct {
	Stream    string `json:"stream"`
	Messages  uint64 `json:"messages"`
	Bytes     uint64 `json:"bytes"`
	ElapsedUS int64  `json:"elapsed_us"`
}

var ackModes = map[string]client.AckMode{
	"none": client.AckNone, "message": client.AckPerMessage, "batch": client.AckPerBatch,
}

func (a *app) pubCommand() *cobra.Command {
	var o pubOptions
	cmd := &cobra.Command{
		Use:   "pub STREAM [FILE...]",
		Short: "Publish lines, or whole files, to a stream",
		Long: `Publishes each line of the files, or of standard input, as one message without
its line end. With --raw each file is one message, or all of standard input is.
The file - is standard input.

The command ends with 0 once the broker has acknowledged everything.`,
		Example: `  echo hello | felix pub greetings
  felix pub --raw images photo.jpg
  tail -f app.log | felix pub logs`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.keyed = cmd.Flags().Changed("key")
			return a.pub(cmd.Context(), args[0], args[1:], o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.raw, "raw", false, "one message per file instead of per line")
	f.StringVar(&o.ack, "ack", "batch", "acknowledgement to ask for: none, message or batch")
	f.IntVar(&o.batch, "batch", client.DefaultBatchEvents, "most messages in one frame")
	f.StringVar(&o.key, "key", "", "routing key of all messages")
	return cmd
}

func (a *app) pub(ctx context.Context, stream string, files []string, o pubOptions) (err error) {
	ack, ok := ackModes[o.ack]
	if !ok {
		return usagef("--ack %s: want none, message or batch", o.ack)
	}
	if o.batch < 1 {
		return usagef("--batch %d: want 1 or more", o.batch)
	}
	if ack == client.AckPerMessage {
		o.batch = 1
	}
	if err := checkNames("pub", nameArgument{"STREAM", stream}); err != nil {
		return err
	}
	if len(files) == 0 {
		files = []string{"-"}
	}
	c, err := a.connect(ctx, nil)
	if err != nil {
		return err
	}
	begin := time.Now()
	s := newSink(c, stream, ack, o)
	err = a.sendFiles(ctx, files, o.raw, s)
	err = errors.Join(err, s.finish(ctx, err))
	if closeErr := closeClient(c); err == nil {
		err = closeErr
	}
	if err != nil {
		return publishError(stream, err)
	}
	if a.json() {
		return a.writeJSON(pubReport{Stream: stream, Messages: s.messages, Bytes: s.bytes, ElapsedUS: time.Since(begin).Microseconds()})
	}
	return nil
}

// publishError says what to do about a failed publish.
func publishError(stream string, err error) error {
	op := operation("pub", stream)
	var missing *client.NotFoundError
	if errors.As(err, &missing) {
		return hint(opError(op, err), "felix stream create %s makes it", daemon.Quoted(stream))
	}
	return opError(op, err)
}

func (a *app) sendFiles(ctx context.Context, files []string, raw bool, s *sink) error {
	for _, name := range files {
		if err := a.sendFile(ctx, name, raw, s); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) sendFile(ctx context.Context, name string, raw bool, s *sink) error {
	in := a.io.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // only read
		in = f
	}
	if !raw {
		return sendLines(ctx, in, s)
	}
	content, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("read input: %w", err)
	}
	return s.send(ctx, content)
}

// sendLines publishes each line. Reading cannot be interrupted, so it runs on
// the side; an interrupt leaves it behind for the end of the process.
func sendLines(ctx context.Context, in io.Reader, s *sink) error {
	type chunk struct {
		lines [][]byte
		err   error
	}
	chunks := make(chan chunk, 4)
	go func() {
		defer close(chunks)
		r := bufio.NewReaderSize(in, 256<<10)
		for {
			lines, err := readLines(r)
			select {
			case chunks <- chunk{lines, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case c, ok := <-chunks:
			if !ok {
				return ctx.Err()
			}
			for _, line := range c.lines {
				if err := s.send(ctx, line); err != nil {
					return err
				}
			}
			if errors.Is(c.err, io.EOF) {
				return nil
			}
			if c.err != nil {
				return fmt.Errorf("read input: %w", c.err)
			}
		}
	}
}

// readLines returns the next line, and all further ones that are in memory
// already. A last line without an end counts.
func readLines(r *bufio.Reader) (lines [][]byte, err error) {
	for {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			lines = append(lines, bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")))
		}
		if err != nil {
			return lines, err
		}
		rest, _ := r.Peek(r.Buffered()) // what is buffered can be peeked at
		if bytes.IndexByte(rest, '\n') < 0 {
			return lines, nil
		}
	}
}

// sink publishes messages to one stream and counts them.
type sink struct {
	pub             *client.Publisher
	messages, bytes uint64
}

func newSink(c *client.Client, stream string, ack client.AckMode, o pubOptions) *sink {
	p := client.PublisherOptions{MaxEvents: o.batch, Ack: ack}
	if o.keyed {
		p.Key = []byte(o.key)
	}
	return &sink{pub: c.NewPublisher(stream, p)}
}

func (s *sink) send(ctx context.Context, payload []byte) error {
	s.messages++
	s.bytes += uint64(len(payload))
	return s.pub.Publish(ctx, payload)
}

// interruptGrace is how long an interrupted pub waits for the acknowledgements
// of what it has read.
const interruptGrace = 5 * time.Second

// finish waits until everything sent is acknowledged. After a failure it gives
// up what is under way; after an interrupt it waits a little.
func (s *sink) finish(ctx context.Context, failed error) error {
	if failed != nil {
		grace := time.Duration(0)
		if errors.Is(failed, context.Canceled) {
			grace = interruptGrace
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
	}
	err := s.pub.Close(ctx)
	if failed != nil {
		return nil // the failure that led here is the one to report
	}
	return err
}
