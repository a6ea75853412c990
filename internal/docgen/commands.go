package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"felix/daemon"
	"felix/internal/cli"
)

const commandsIntro = `# Commands

` + "`felixd`" + ` is the daemon, ` + "`felix`" + ` everything else. Both have ` + "`--help`, `--version` and `completion bash|zsh|fish|powershell`" + `.

## What all commands of felix have in common

* **Finding the broker.** Without flags ` + "`felix`" + ` uses the broker that the same user runs with ` + "`felixd --dev`" + `, by ` + "`endpoint.json`" + ` in its data directory.
  Another one is named by ` + "`--addr`, `--ca` and `--token-file`" + `. Every global flag has an environment variable, which it beats; both beat ` + "`endpoint.json`" + `.
* **Output.** The result goes to standard output; ` + "`--json`" + ` makes it one JSON object (` + "`sub`" + `: one a line) with units in the names of numbers.
  Progress goes to standard error, and only to a terminal.
  In text, names with control characters are quoted and escaped; payloads and cache values are written as they are.
* **Frame limit.** ` + "`felix`" + ` sends and takes frames of 16 MiB, as the broker does; ` + "`FELIX_MAX_FRAME_BYTES`" + ` changes it, and should be set alike for both.
* **Errors** are one line on standard error: ` + "`felix: what: why (what to do)`" + `.
* **Exit codes**: 0 success, 1 failure, 2 wrong usage, 3 a measurement that is none, 128 + n ended by signal n (130 for Ctrl-C).
* **Pipes.** ` + "`felix sub s | head`" + ` ends quietly with 0 when its reader is gone, on Linux also while the stream is quiet; elsewhere at the next message.

Commands that administrate (` + "`stream`, `cache create`, `cache list`" + `) use the [admin interface](admin.md) of the broker on this host, the others the protocol.
`

// writeCommands documents the command trees.
func writeCommands(_ context.Context, w io.Writer) error {
	var b strings.Builder
	b.WriteString(commandsIntro)
	writeCommand(&b, daemon.NewCommand())
	writeCommand(&b, cli.NewCommand())
	_, err := io.WriteString(w, b.String())
	return err
}

func writeCommand(b *strings.Builder, cmd *cobra.Command) {
	if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
		return
	}
	cmd.InitDefaultHelpFlag()
	fmt.Fprintf(b, "\n## %s\n\n%s.\n", cmd.CommandPath(), strings.TrimSuffix(cmd.Short, "."))
	if cmd.Runnable() && !cmd.HasAvailableSubCommands() {
		fmt.Fprintf(b, "\n```\n%s\n```\n", cmd.UseLine())
	}
	if cmd.Long != "" {
		fmt.Fprintf(b, "\n%s\n", cmd.Long)
	}
	if cmd.Example != "" {
		fmt.Fprintf(b, "\nExamples:\n\n```\n%s\n```\n", cmd.Example)
	}
	if cmd.HasAvailableLocalFlags() {
		fmt.Fprintf(b, "\nFlags:\n\n```\n%s```\n", cmd.LocalFlags().FlagUsages())
	}
	for _, sub := range cmd.Commands() {
		writeCommand(b, sub)
	}
}
