package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"felix/client"
)

// subOptions are the flags of felix sub.
type subOptions struct {
	from  string
	count uint64
	raw   bool
}

func (a *app) subCommand() *cobra.Command {
	var o subOptions
	cmd := &cobra.Command{
		Use:   "sub STREAM",
		Short: "Print the messages of a stream",
		Long: `Prints each message of a stream as a line, from now on or from a position in the
past that the broker still holds. It ends after --count messages, when the
broker ends the subscription, or by Ctrl-C.

With --raw payloads are written back to back without line ends. With --json each
line is an object: payload as text, or payload_base64 if it is not UTF-8, and
offset if the event has one.

A subscription whose connection breaks is made again; what is known or may be
missing is reported on standard error.`,
		Example: `  felix sub greetings
  felix sub orders --from earliest --count 10 --json
  felix sub logs | grep error`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.sub(cmd.Context(), args[0], o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "latest", "where to start: latest, earliest, or an offset")
	f.Uint64Var(&o.count, "count", 0, "end after this many messages; 0: never")
	f.BoolVar(&o.raw, "raw", false, "write payloads as they are, without line ends")
	return cmd
}

func startOption(from string) (client.SubscribeOption, error) {
	switch from {
	case "latest":
		return client.FromLatest(), nil
	case "earliest":
		return client.FromEarliest(), nil
	}
	n, err := strconv.ParseUint(from, 10, 64)
	if err != nil {
		return nil, usagef("--from %s: want latest, earliest or an offset", from)
	}
	return client.FromOffset(n), nil
}

func (a *app) sub(ctx context.Context, stream string, o subOptions) error {
	start, err := startOption(o.from)
	if err != nil {
		return err
	}
	if err := checkNames("sub", nameArgument{"STREAM", stream}); err != nil {
		return err
	}
	if o.raw && a.json() {
		return usagef("--raw does not go with --json")
	}
	c, err := a.connect(ctx, nil)
	if err != nil {
		return err
	}
	err = a.follow(ctx, c, stream, start, o)
	if closeErr := closeClient(c); err == nil {
		err = closeErr
	}
	return err
}

func (a *app) follow(ctx context.Context, c *client.Client, stream string, start client.SubscribeOption, o subOptions) error {
	op := operation("sub", stream)
	s, err := c.Subscribe(ctx, stream, start)
	if err != nil {
		return subscribeError(op, err)
	}
	w := newEventWriter(a, o)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer watchReader(a.io.Out, func() { stop(errQuiet) })()
	events := make(chan []client.Event, 16)
	var received error
	done := make(chan struct{})
	go func() { defer close(done); received = receive(ctx, s, o.count, events) }()
	if err := w.run(events); err != nil {
		stop(err) // ends the receiver, which closes events
		for range events {
		}
		<-done
		return errors.Join(err, quietClose(s))
	}
	<-done
	switch {
	case errors.Is(context.Cause(ctx), errQuiet):
		received = errQuiet
	case errors.Is(received, io.EOF):
		received = nil
	}
	return errors.Join(opError(op, received), quietClose(s))
}

// quietClose ends a subscription; that it had ended before is no failure.
func quietClose(s *client.Subscription) error {
	if err := s.Close(); err != nil && !errors.Is(err, client.ErrClosed) {
		return err
	}
	return nil
}

func subscribeError(op string, err error) error {
	var cursor *client.CursorError
	if errors.As(err, &cursor) {
		return hint(opError(op, err), "use --from %d, earliest or latest", cursor.Available)
	}
	var missing *client.NotFoundError
	if errors.As(err, &missing) {
		return hint(opError(op, err), "felix stream create makes a stream")
	}
	return opError(op, err)
}

// receive passes on events, in the batches they arrive in, until count of them
// are through or the subscription ends. It closes out.
func receive(ctx context.Context, s *client.Subscription, count uint64, out chan<- []client.Event) error {
	defer close(out)
	for seen := uint64(0); count == 0 || seen < count; {
		batch, err := s.NextBatch(ctx, nil)
		if count > 0 && uint64(len(batch)) > count-seen {
			batch = batch[:count-seen]
		}
		seen += uint64(len(batch))
		if len(batch) > 0 {
			select {
			case out <- batch:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eventWriter prints events. It writes in large pieces while there is more to
// print, and flushes before it waits.
type eventWriter struct {
	app  *app
	out  *bufio.Writer
	raw  bool
	json bool
}

func newEventWriter(a *app, o subOptions) *eventWriter {
	return &eventWriter{app: a, out: bufio.NewWriterSize(a.io.Out, 256<<10), raw: o.raw, json: a.json()}
}

// run prints batches until the channel is closed.
func (w *eventWriter) run(events <-chan []client.Event) error {
	for {
		var batch []client.Event
		var ok bool
		select {
		case batch, ok = <-events:
		default:
			if err := w.out.Flush(); err != nil {
				return outputError(err)
			}
			batch, ok = <-events
		}
		if !ok {
			return outputError(w.out.Flush())
		}
		for _, e := range batch {
			w.notice(e)
			if err := w.write(e); err != nil {
				return outputError(err)
			}
		}
	}
}

// notice tells about records that this program did not get.
func (w *eventWriter) notice(e client.Event) {
	if e.Skipped > 0 {
		fmt.Fprintf(w.app.io.Err, "felix: sub: %d messages are missing before offset %d\n", e.Skipped, e.Offset)
	} else if e.Resumed {
		fmt.Fprintln(w.app.io.Err, "felix: sub: the connection was lost and is back; messages may be missing")
	}
}

func (w *eventWriter) write(e client.Event) error {
	if w.json {
		return w.writeJSON(e)
	}
	if _, err := w.out.Write(e.Payload); err != nil || w.raw {
		return err
	}
	return w.out.WriteByte('\n')
}

// jsonEvent is a line of felix sub --json.
type jsonEvent struct {
	Offset  *uint64 `json:"offset,omitempty"`
	Payload *string `json:"payload,omitempty"`
	Base64  []byte  `json:"payload_base64,omitempty"`
}

func (w *eventWriter) writeJSON(e client.Event) error {
	var j jsonEvent
	if e.HasOffset {
		j.Offset = &e.Offset
	}
	if utf8.Valid(e.Payload) {
		text := string(e.Payload)
		j.Payload = &text
	} else {
		j.Base64 = e.Payload
	}
	return json.NewEncoder(w.out).Encode(j)
}
