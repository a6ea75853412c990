package quicprobe

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"felix/bench/probe"
)

// TestMain is the program itself when started with the command path, so that
// the probe can start its processes from the test binary.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "probe" {
		os.Exit(programMain())
	}
	if os.Getenv("GORACE") == "" {
		// The race detector holds a process up for a second when it ends.
		os.Setenv("GORACE", "atexit_sleep_ms=0")
	}
	goleak.VerifyTestMain(m)
}

func programMain() int {
	err := program().Execute()
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	var invalid *probe.InvalidMeasurement
	if errors.As(err, &invalid) {
		return 3
	}
	return 1
}

// program mounts the commands as the real one does.
func program() *cobra.Command {
	root := &cobra.Command{Use: "felix", SilenceErrors: true, SilenceUsage: true}
	p := &cobra.Command{Use: "probe"}
	p.AddCommand(RawCommand(), RelayCommand())
	root.AddCommand(p)
	return root
}

// self starts the test binary's own processes.
func self(k Kind) probe.Launcher { return probe.Launcher{Args: []string{"probe", string(k)}} }

// small is a run that takes a moment, for what needs no meaningful rate.
func small(k Kind) Options {
	o := DefaultOptions(k)
	o.Bytes, o.Chunk, o.AllowSmall = 4<<20, 64<<10, true
	return o
}

// execute runs the command as a user would, in this process.
func execute(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	root := program()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(io.Discard)
	root.SetArgs(append([]string{"probe"}, args...))
	err = root.ExecuteContext(t.Context())
	return out.String(), err
}
