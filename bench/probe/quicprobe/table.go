package quicprobe

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Headings of a report for people. The second one is for runs so small that the
// bytes never left the buffers.
const (
	headingFill = "buffer-fill rate, not throughput"
	headingFew  = "too few pings for percentiles"
)

// WriteTable writes the report for people.
func (r Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	for _, n := range r.Notes {
		b.WriteString("note: " + n + "\n")
	}
	switch {
	case !r.Meaningful && r.Throughput != nil:
		b.WriteString(headingFill + "\n")
	case !r.Meaningful:
		b.WriteString(headingFew + "\n")
	}
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, name+"\t"+format+"\n", args...) }
	r.resultRows(row)
	row("engine", "%s, packets up to %d B", r.Engine, r.PacketCeilingBytes)
	row("packets", "%s, %d sent, %d lost (%.3f %%), %d dropped in the engine", r.packetSize(), r.PacketsSent, r.PacketsLost, r.LossPercent, r.DroppedInEngine)
	row("guarantee", "%s: %s", onOff(r.LoopbackGuarantee), r.LoopbackGuaranteeReason)
	for _, h := range r.Hops {
		row(h.From+" to "+h.To, "%s; back %s", h.Forward.text(), h.Back.text())
	}
	row("refused", "%d%s", r.Refused, byErrno(r.RefusedByErrno))
	if k := r.Kernel; k != nil {
		row("kernel", "receive buffer drops %d, send errors %d, receive errors %d", k.RcvbufErrors, k.SndbufErrors, k.InErrors)
	}
	row("host", "%s, %s, %d shared processors", r.Host.Kernel, r.Host.CPUModel, r.Host.CPUs)
	if err := t.Flush(); err != nil {
		return err
	}
	b.WriteString("\n" + r.processTable())
	_, err := io.WriteString(w, b.String())
	return err
}

// processTable has a line for each process.
func (r Report) processTable() string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\twidth\tuser s\tsystem s\ts/GB\tswitches\tsends/datagram\treads/datagram\tgso %\tgro %\trtt us\t")
	for _, p := range r.Processes {
		fmt.Fprintf(t, "%s\t%d\t%.2f\t%.2f\t%s\t%d\t%.3f\t%.3f\t%.0f\t%.0f\t%s\t\n",
			p.Role, p.Width, float64(p.UserUS)/1e6, float64(p.SystemUS)/1e6, perGB(p.CPUPerGB), p.Voluntary+p.Involuntary,
			p.SendCallsPerDatagram, p.ReceiveCallsPerDatagram, 100*p.GSORatio, 100*p.GRORatio, p.rtt())
	}
	_ = t.Flush() // a strings.Builder takes everything
	return b.String()
}

func perGB(s float64) string {
	if s == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", s)
}

// rtt is that of the first connection with data to send.
func (p Process) rtt() string {
	for _, c := range p.Connections {
		if sendsData(p.Role, c.Peer) {
			return fmt.Sprint(c.SmoothedRTTUS)
		}
	}
	return "-"
}

func (r Report) resultRows(row func(name, format string, args ...any)) {
	if x := r.Throughput; x != nil {
		row("rate", "%.1f MB/s (%.1f on the wire), %d bytes in %.3f s, longest stall %d ms",
			x.MBPerS, x.WireMBPerS, x.PayloadBytes, float64(x.ElapsedUS)/1e6, x.LongestStallMS)
		s := r.Settings
		row("streams", "%d on %d connections, %d frames of %d B", s.Streams*s.Connections, s.Connections, x.Frames, s.Chunk)
	}
	if x := r.Latency; x != nil {
		row("delivery", "%s", x.text())
		row("round trip", "%s", x.RoundTrip.text())
		pace := "one at a time"
		if r.Settings.Interval > 0 {
			pace = "one every " + r.Settings.Interval.String()
		}
		row("pings", "%d of %d B, %s; connected in %v", x.Pings, r.Settings.Payload, pace, time.Duration(r.ConnectUS)*time.Microsecond)
	}
}

func (r Report) packetSize() string {
	if r.PacketSizeBytes == 0 {
		return "size by search"
	}
	return fmt.Sprintf("%d B", r.PacketSizeBytes)
}

func (p Percentiles) text() string {
	return fmt.Sprintf("p50 %.0f us, p99 %.0f us, p999 %.0f us, max %.0f us", p.P50, p.P99, p.P999, p.Max)
}

func (x Traffic) text() string {
	return fmt.Sprintf("%d datagrams of %.0f B, %.1f MB", x.Datagrams, x.BytesPerDatagram, float64(x.WireBytes)/1e6)
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

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
