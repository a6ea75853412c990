// Package cli holds the commands of the program felix: everyday use of a
// broker, its demo, and the mount points of the host, probe and benchmark
// commands.
//
// A command writes its result to standard output and nothing else there; an
// error is one line on standard error, `felix: what: why (what to do)`.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"felix/daemon"
)

// IO is what a command reads and writes.
type IO struct {
	In       io.Reader
	Out, Err io.Writer
	Environ  []string // KEY=VALUE
}

// app is one invocation of felix.
type app struct {
	io      IO
	flags   globalFlags
	running bool // arguments were understood
}

// Main runs felix with the arguments of the process and returns its exit code.
func Main() int {
	// Writing to a closed pipe must end a command in an orderly way, so that the
	// broker is told, and not the process on the spot.
	signal.Ignore(syscall.SIGPIPE)
	ctx, interrupted, stop := interruptible(context.Background())
	defer stop()
	err := Run(ctx, os.Args[1:], IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ()})
	if s := syscall.Signal(interrupted.Load()); s != 0 && errors.Is(err, context.Canceled) {
		err = &interruptedError{s}
	}
	return report(os.Stderr, err)
}

// interruptible returns a context that SIGINT and SIGTERM end, and the number of
// the signal that did. After the first one the signals have their usual effect
// again, so that a second one kills.
func interruptible(parent context.Context) (context.Context, *atomic.Int64, func()) {
	ctx, cancel := context.WithCancel(parent)
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGINT, syscall.SIGTERM)
	var number atomic.Int64
	go func() {
		select {
		case s := <-ch:
			number.Store(int64(s.(syscall.Signal))) // the two above are
			signal.Stop(ch)
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, &number, func() { signal.Stop(ch); cancel() }
}

// report writes the line for err, if it deserves one, and returns the exit code.
func report(w io.Writer, err error) int {
	var interrupted *interruptedError
	if err != nil && !errors.Is(err, errQuiet) && !errors.As(err, &interrupted) {
		fmt.Fprintln(w, message(err))
	}
	return exitCode(err)
}

// Run runs felix with args. Errors of usage are told apart from others by the
// exit code that belongs to the returned error.
func Run(ctx context.Context, args []string, stdio IO) error {
	a := &app{io: stdio}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var usage *usageError
	if err != nil && !a.running && !errors.As(err, &usage) {
		return usagef("%s (felix --help lists what there is)", strings.TrimPrefix(err.Error(), "felix: "))
	}
	return err
}

// NewCommand returns the command tree, for its documentation.
func NewCommand() *cobra.Command {
	return (&app{io: IO{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}}).root()
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "felix",
		Short: "Use, measure and explain a Felix broker",
		Long: `felix talks to a Felix broker.

Without flags it finds the broker that the same user runs with felixd --dev.
Another one is named by --addr, --ca and --token-file, or by the environment
variables of the same meaning.`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
		PersistentPreRun:  func(*cobra.Command, []string) { a.running = true },
	}
	root.SetIn(a.io.In)
	root.SetOut(a.io.Out)
	root.SetErr(a.io.Err)
	root.Version = daemon.Build().String()
	root.SetVersionTemplate("felix {{.Version}}\n")
	a.flags.register(root.PersistentFlags())
	root.AddCommand(a.pubCommand(), a.subCommand(), a.cacheCommand(), a.streamCommand(), a.tokenCommand(), a.demoCommand(), a.versionCommand())
	root.AddCommand(mounted()...)
	return root
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and the QUIC engine",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := daemon.Build()
			if a.json() {
				return a.writeJSON(b)
			}
			return a.printf("felix %s\n", b)
		},
	}
}
