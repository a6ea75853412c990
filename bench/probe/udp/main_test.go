package udpprobe

import (
	"fmt"
	"os"
	"testing"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"felix/bench/probe"
)

// TestMain is the program itself when started with the command path, so that
// the probe can start its two processes from the test binary.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "probe" {
		if err := program().Execute(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv("GORACE") == "" {
		// The race detector holds a process up for a second when it ends.
		os.Setenv("GORACE", "atexit_sleep_ms=0")
	}
	goleak.VerifyTestMain(m)
}

// program mounts the command as the real one does.
func program() *cobra.Command {
	root := &cobra.Command{Use: "felix", SilenceErrors: true, SilenceUsage: true}
	parent := &cobra.Command{Use: "probe"}
	parent.AddCommand(Command())
	root.AddCommand(parent)
	return root
}

// self starts the test binary's own processes.
func self() probe.Launcher { return probe.Launcher{Args: []string{"probe", "udp"}} }
