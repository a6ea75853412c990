package udpprobe

import (
	"encoding/json"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"felix/bench/probe"
	"felix/udp"
)

// Names of the hidden subcommands that the two processes run.
const (
	sendName    = "send"
	receiveName = "receive"
)

// Command returns the command `udp`, to be mounted under `probe`. It starts
// this program again with its own command path and a hidden subcommand. The
// report goes to standard output, a progress bar to standard error if that is a
// terminal. Errors are returned; a [*probe.InvalidMeasurement] among them asks
// for exit code 3.
func Command() *cobra.Command {
	o := DefaultOptions()
	var asJSON, v4 bool
	cmd := &cobra.Command{
		Use:   "udp",
		Short: "Measure batched UDP sockets over loopback, without QUIC",
		Long: "Measures what two processes move through batched UDP sockets over loopback:\n" +
			"throughput, system calls per datagram, refusals by errno, and where datagrams\n" +
			"were lost. It is the floor that QUIC and the broker stand on.\n\n" +
			"Exit code 3: not a measurement.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := fromEnvironment(cmd, &o); err != nil {
				return err
			}
			l := probe.Launcher{Args: strings.Fields(cmd.CommandPath())[1:]}
			r, err := Run(cmd.Context(), o, l, probe.Terminal(cmd.ErrOrStderr()))
			if r.Settings == (Settings{}) { // refused or failed before there was anything to report
				return err
			}
			if werr := write(cmd.OutOrStdout(), r, asJSON); werr != nil {
				return werr
			}
			return err
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Segment, "segment", o.Segment, "payload of a datagram in `bytes`")
	f.IntVar(&o.Aggregate, "aggregate", o.Aggregate, "payload of a write in `bytes` (default as much as one segmented send takes)")
	f.Var((*probe.SwitchFlag)(&o.GSO), "gso", "segmented sends: on, off or auto")
	f.Var((*probe.SwitchFlag)(&o.GRO), "gro", "coalesced receives: on, off or auto")
	f.Var((*probe.SwitchFlag)(&o.MMsg), "mmsg", "several messages a system call, each way: on, off or auto")
	f.BoolVarP(&v4, "ipv4", "4", false, "use IPv4 (the default)")
	f.BoolVarP(&o.V6, "ipv6", "6", false, "use IPv6")
	f.DurationVar(&o.Duration, "duration", o.Duration, "how long to send")
	f.IntVar(&o.Buffer, "buffer", o.Buffer, "socket buffers to ask for in `bytes` (default 8388608)")
	f.BoolVar(&o.NoClamp, "no-clamp", false, "plan sends without regard to the kernel's limits")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	_ = f.MarkHidden("no-clamp") // fails only for an unknown flag
	cmd.MarkFlagsMutuallyExclusive("ipv4", "ipv6")
	cmd.AddCommand(sendCommand(), receiveCommand())
	return cmd
}

// fromEnvironment applies FELIX_UDP_GSO and FELIX_UDP_GRO where no flag was
// given, and switches batches off if either direction's variable does.
func fromEnvironment(cmd *cobra.Command, o *Options) error {
	c := o.socket()
	if err := c.ApplyEnv(os.LookupEnv); err != nil {
		return err
	}
	changed := cmd.Flags().Changed
	if !changed("gso") {
		o.GSO = c.GSO
	}
	if !changed("gro") {
		o.GRO = c.GRO
	}
	if !changed("mmsg") && (c.SendMMsg == udp.Off || c.RecvMMsg == udp.Off) {
		o.MMsg = udp.Off
	}
	return nil
}

func write(w io.Writer, r Report, asJSON bool) error {
	if asJSON {
		return probe.WriteJSON(w, r)
	}
	return r.WriteTable(w)
}

func sendCommand() *cobra.Command {
	return childCommand(sendName, func(cmd *cobra.Command, spec string, pipe *os.File) error {
		var s senderSpec
		if err := json.Unmarshal([]byte(spec), &s); err != nil {
			return err
		}
		return runSender(s, pipe, cmd.OutOrStdout())
	})
}

func receiveCommand() *cobra.Command {
	return childCommand(receiveName, func(cmd *cobra.Command, spec string, pipe *os.File) error {
		var s receiverSpec
		if err := json.Unmarshal([]byte(spec), &s); err != nil {
			return err
		}
		return runReceiver(s, pipe, cmd.InOrStdin(), cmd.OutOrStdout())
	})
}

func childCommand(name string, run func(cmd *cobra.Command, spec string, pipe *os.File) error) *cobra.Command {
	var spec string
	cmd := &cobra.Command{
		Use:    name,
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pipe, err := inheritedPipe()
			if err != nil {
				return err
			}
			defer closeQuietly(pipe)
			return run(cmd, spec, pipe)
		},
	}
	cmd.Flags().StringVar(&spec, "spec", "", "what to do, as JSON")
	return cmd
}
