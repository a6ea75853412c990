package quicprobe

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"felix/bench/probe"
)

// RawCommand returns the command `raw`, to be mounted under `probe`. It starts
// this program again with its own command path and a hidden subcommand. The
// report goes to standard output, a progress bar to standard error if that is a
// terminal. Errors are returned; a [*probe.InvalidMeasurement] among them asks
// for exit code 3.
func RawCommand() *cobra.Command {
	o := DefaultOptions(Raw)
	cmd := newCommand(&o, &cobra.Command{
		Use:   "raw",
		Short: "Measure QUIC over one hop, without the broker",
		Long: "Measures what a sender moves to a receiver that discards it, both processes of\n" +
			"their own, over QUIC on loopback.\n\n" +
			"With --interval it sends one request each interval instead and reports the\n" +
			"slowest answer: what a quiet connection has to wait.\n\n" +
			"Exit code 3: not a measurement.",
	}, roleSender, roleReceiver)
	const requests = 50
	f := cmd.Flags()
	f.DurationVar(&o.Interval, "interval", 0, "send one request each interval instead, and time the answers")
	f.IntVar(&o.Payload, "payload", o.Payload, "size of a request and its answer in `bytes`")
	f.IntVar(&o.Count, "count", requests, "`number` of requests")
	return cmd
}

// RelayCommand returns the command `relay`. It is otherwise like [RawCommand].
func RelayCommand() *cobra.Command {
	o := DefaultOptions(Relay)
	cmd := newCommand(&o, &cobra.Command{
		Use:   "relay",
		Short: "Measure QUIC from a publisher through a minimal relay to a subscriber",
		Long: "Measures what a publisher moves through a relay to a subscriber, three processes\n" +
			"of their own, over QUIC on loopback. The relay does the least that a broker has\n" +
			"to do: it reads frames and writes them on.\n\n" +
			"With --latency it sends pings instead, one at a time, and reports how long they\n" +
			"take from the publisher to the subscriber, and until the answer is back.\n\n" +
			"Exit code 3: not a measurement.",
	}, rolePublisher, roleRelay, roleSubscriber)
	f := cmd.Flags()
	f.BoolVar(&o.Latency, "latency", false, "time single pings instead, one in flight")
	f.IntVar(&o.Payload, "payload", o.Payload, "size of a ping in `bytes`")
	f.IntVar(&o.Count, "count", o.Count, "`number` of pings that count; as many, but no more than 1000, go before them")
	return cmd
}

// newCommand completes a command with what both have.
func newCommand(o *Options, cmd *cobra.Command, roles ...string) *cobra.Command {
	var asJSON, v4 bool
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		// Checked here, wrong combinations are wrong usage like wrong flags.
		return errors.Join(cobra.NoArgs(cmd, args), cmd.ValidateFlagGroups(), combinations(cmd, *o))
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := fromEnvironment(cmd, o); err != nil {
			return err
		}
		l := probe.Launcher{Args: strings.Fields(cmd.CommandPath())[1:]}
		r, err := Run(cmd.Context(), *o, l, probe.Terminal(cmd.ErrOrStderr()))
		if err != nil {
			return err
		}
		if asJSON {
			return probe.WriteJSON(cmd.OutOrStdout(), r)
		}
		return r.WriteTable(cmd.OutOrStdout())
	}
	f := cmd.Flags()
	f.IntVar(&o.Connections, "connections", o.Connections, "`number` of connections of each hop")
	f.IntVar(&o.Streams, "streams", o.Streams, "`number` of streams on each connection")
	f.Int64Var(&o.Bytes, "bytes", o.Bytes, "payload to move in `bytes`, rounded up to whole chunks")
	f.IntVar(&o.Chunk, "chunk", o.Chunk, "payload of a frame in `bytes`")
	f.IntVar(&o.PacketSize, "packet-size", 0, "fixed size of full packets in `bytes` of UDP payload (default as the transport decides)")
	f.Var((*probe.SwitchFlag)(&o.GSO), "gso", "segmented sends: on, off or auto")
	f.Var((*probe.SwitchFlag)(&o.GRO), "gro", "coalesced receives: on, off or auto")
	f.IntVar(&o.Width, "width", 0, "GOMAXPROCS of each process, a `number`; 0: the default")
	f.BoolVarP(&v4, "ipv4", "4", false, "use IPv4 (the default)")
	f.BoolVarP(&o.V6, "ipv6", "6", false, "use IPv6")
	f.Int64Var(&o.Window, "window", o.Window, "receive window of connections and streams in `bytes` (default as the transport has it)")
	f.IntVar(&o.Buffer, "buffer", o.Buffer, "socket buffers to ask for in `bytes`")
	f.BoolVar(&o.Stock, "stock", false, "stock engine, packets of at most 1452 bytes, no GRO, default width")
	f.BoolVar(&o.AllowSmall, "allow-small", false, "run even if it is too small to mean anything")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.MarkFlagsMutuallyExclusive("ipv4", "ipv6")
	for _, name := range []string{"packet-size", "gso", "gro", "width"} {
		cmd.MarkFlagsMutuallyExclusive("stock", name)
	}
	for _, role := range roles {
		cmd.AddCommand(partyCommand(role))
	}
	return cmd
}

// combinations refuses flags that would have no effect.
func combinations(cmd *cobra.Command, o Options) error {
	pings := "--latency"
	if o.Kind == Raw {
		pings = "--interval"
	}
	var errs []error
	for _, name := range []string{"payload", "count"} {
		if cmd.Flags().Changed(name) && !o.pings() {
			errs = append(errs, fmt.Errorf("--%s needs %s", name, pings))
		}
	}
	for _, name := range []string{"bytes", "chunk", "streams", "connections"} {
		if cmd.Flags().Changed(name) && o.pings() {
			errs = append(errs, fmt.Errorf("--%s does not go with %s", name, pings))
		}
	}
	return errors.Join(errs...)
}

// fromEnvironment applies the switches and the width that the environment names
// and no flag does. With --stock the switches of the sockets still count: they
// say what the host can do.
func fromEnvironment(cmd *cobra.Command, o *Options) error {
	socket := o.endpoint().Socket
	if err := socket.ApplyEnv(os.LookupEnv); err != nil {
		return err
	}
	changed := cmd.Flags().Changed
	if !changed("gso") {
		o.GSO = socket.GSO
	}
	if !changed("gro") {
		o.GRO = socket.GRO
	}
	o.SendMMsg, o.RecvMMsg, o.ECN = socket.SendMMsg, socket.RecvMMsg, socket.ECN
	const name = "FELIX_WORKER_THREADS"
	if text := os.Getenv(name); text != "" && !changed("width") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("environment variable %s: %q is not a number", name, text)
		}
		o.Width = n
	}
	return nil
}

// partyCommand is the hidden subcommand of a role.
func partyCommand(role string) *cobra.Command {
	var text string
	cmd := &cobra.Command{
		Use:    role,
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var s spec
			if err := json.Unmarshal([]byte(text), &s); err != nil {
				return fmt.Errorf("what to do: %w", err)
			}
			if s.Role != role {
				return errors.New("what to do is meant for another role")
			}
			return runParty(cmd.Context(), s, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&text, "spec", "", "what to do, as JSON")
	return cmd
}
