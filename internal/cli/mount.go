package cli

import (
	"github.com/spf13/cobra"

	"felix/bench/probe/quicprobe"
	probeudp "felix/bench/probe/udp"
	"felix/internal/hostcheck"
)

// mounted returns the commands that other packages bring.
func mounted() []*cobra.Command {
	probe := &cobra.Command{
		Use:   "probe",
		Short: "Measure what the transport can do without the broker",
	}
	probe.AddCommand(probeudp.Command(), quicprobe.RawCommand(), quicprobe.RelayCommand())
	host := hostcheck.Command()
	host.Args, host.RunE = nil, nil
	return []*cobra.Command{requireSubcommand(host), requireSubcommand(probe)}
}
