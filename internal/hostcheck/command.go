package hostcheck

import (
	"encoding/json"

	"github.com/spf13/cobra"
)

// Command returns the command `host` with its subcommand `check`. The report
// goes to the command's standard output; if a finding costs throughput or
// safety the command ends with a [*DeficientError] besides.
func Command() *cobra.Command {
	host := &cobra.Command{
		Use:   "host",
		Short: "Look at what this host grants a broker",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	host.AddCommand(checkCommand())
	return host
}

func checkCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check socket buffers, offloads, MTUs, rights and limits",
		Long: "Checks what this host grants a broker and says what to change and how.\n" +
			"It changes nothing. Rights and limits are those of this process: run it as\n" +
			"the daemon's user, in its container or unit, to see what the daemon gets.\n\n" +
			"Exit code 1: something costs throughput or is unsafe.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := Run(cmd.Context())
			var err error
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				err = e.Encode(r)
			} else {
				err = r.WriteTable(cmd.OutOrStdout())
			}
			if err != nil {
				return err
			}
			return r.Err()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
