package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// demoOptions are the flags of felix demo.
type demoOptions struct {
	dir         string
	subscribers int
}

func (a *app) demoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Send every file of a folder through a broker to three subscribers that check it",
		Long: `Starts felixd --dev in a process of its own, publishes every regular file below
--dir to one stream, and receives it with subscribers that each have their own
connection. Every file's order, name and SHA-256 is checked by each of them.
Then it measures the latency of messages sent one at a time.

The last line is "demo: ok", or "demo: FAILED" with the reason and exit code 1.
The broker runs with the profile lossless, so that what is measured is what
arrived.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", "", "folder with the files; default: the sources of the Go tool chain")
	f.IntVar(&o.subscribers, "subscribers", 3, "number of subscribers")
	return cmd
}

func (a *app) demo(ctx context.Context, o demoOptions) error {
	if o.subscribers < 1 || o.subscribers > 100 {
		return usagef("--subscribers %d: want 1 to 100", o.subscribers)
	}
	dir := o.dir
	if dir == "" {
		var err error
		if dir, err = a.goSources(ctx); err != nil {
			return opError("demo", err)
		}
	}
	files, err := listFiles(ctx, dir)
	if err != nil {
		return opError("demo", err)
	}
	report, err := a.runDemo(ctx, dir, files, o.subscribers)
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return err // an interrupt is no verdict
	}
	if err != nil {
		report.Failure = err.Error()
	}
	report.OK = err == nil
	return errors.Join(opError("demo", err), a.printDemo(report))
}

// runDemo starts a broker, runs both parts, and ends it again.
func (a *app) runDemo(ctx context.Context, dir string, files []string, subscribers int) (report demoReport, err error) {
	report = demoReport{Dir: dir, Subscribers: subscribers}
	temp, err := os.MkdirTemp("", "felix-demo-")
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	broker, err := a.startBroker(ctx, filepath.Join(temp, "data"), filepath.Join(temp, "log"))
	if err != nil {
		return report, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // a broker that dies ends everything at once
		select {
		case <-broker.done:
			cancel(broker.diedError())
		case <-ctx.Done():
		}
	}()
	err = a.demoTransfer(ctx, broker.endpoint, dir, files, &report)
	if err == nil {
		err = a.demoLatency(ctx, broker.endpoint, &report)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	cancel(nil)
	return report, errors.Join(err, broker.stop())
}

// errDemo starts the description of something that arrived wrong.
func errDemo(format string, args ...any) error { return fmt.Errorf(format, args...) }
