package udpprobe

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// WriteTable writes the report for people.
func (x Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	if !x.Valid {
		b.WriteString("INVALID RUN: " + strings.Join(x.InvalidReasons, "; ") + "\n\n")
	}
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, name+"\t"+format+"\n", args...) }
	s := x.Settings
	row("datagrams", "%d B, %d a write, %s, %s (mtu %d)", s.SegmentBytes, s.DatagramsPerWrite, s.Family, x.Link.Interface, x.Link.MTUBytes)
	row("throughput", "%.1f MB/s over %.3f s", x.MBPerS, float64(x.ElapsedUS)/1e6)
	row("sent", "%d, %.4f system calls each (%s)", x.Sent, x.SendCallsPerDatagram, x.SendEngine)
	row("received", "%d, %.4f system calls each (%s)", x.Received, x.ReceiveCallsPerDatagram, x.ReceiveEngine)
	row("lost", "%d (%d unaccounted), %d duplicate, %d reordered, %d corrupt", x.Lost, x.Unaccounted, x.Duplicates, x.Reordered, x.Corrupt)
	row("refused", "%d%s", x.Refused, byErrno(x.RefusedByErrno))
	row("flow control", "%d in flight at most, %d waits, %d stalls", s.WindowDatagrams, x.WindowWaits, x.WindowStalls)
	if d := x.Kernel.Delta; d != nil {
		row("kernel", "receive buffer drops %d, memory %d, send %d, checksum %d%s",
			d.RcvbufErrors, d.MemErrors, d.SndbufErrors, d.InCsumErrors, x.backlogDrops())
	}
	row("buffers", "receive %d KiB of %d asked, send %d KiB of %d asked",
		x.Receiver.Granted.Read.Granted>>10, x.Receiver.Granted.Read.Asked>>10,
		x.Sender.Granted.Write.Granted>>10, x.Sender.Granted.Write.Asked>>10)
	row("offloads", "%s", offloadText(x.Link.Offloads))
	row("cpu", "sender %s, receiver %s", x.Sender.cpu(), x.Receiver.cpu())
	row("host", "%s, %s, %d shared processors", x.Host.Kernel, x.Host.CPUModel, x.Host.CPUs)
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (x Report) backlogDrops() string {
	if x.Kernel.SoftnetDelta == nil {
		return ""
	}
	return fmt.Sprintf(", backlog %d", x.Kernel.SoftnetDelta.Dropped)
}

func byErrno(m map[string]uint64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", strings.ToUpper(name), m[name]))
	}
	if parts == nil {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func offloadText(m map[string]string) string {
	if len(m) == 0 {
		return "not known"
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, name+" "+m[name])
	}
	return strings.Join(parts, ", ")
}

func (p Process) cpu() string {
	return fmt.Sprintf("%.2f s user + %.2f s system", float64(p.UserUS)/1e6, float64(p.SystemUS)/1e6)
}
