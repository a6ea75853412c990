package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"felix/daemon"
)

const metricsIntro = `# Metrics

` + "`GET /metrics` on `metrics_bind`" + ` serves them as Prometheus text; the [admin interface](admin.md) has the same under ` + "`/v1/metrics`" + `. Beside those listed there are the Go
runtime's (` + "`go_`) and the process's (`process_`)" + `.

Names that the original broker has, and that count the same thing, are kept, so that its dashboards go on working. The others follow the parts of the
program: ` + "`felix_broker_`" + ` the core, ` + "`felix_session_`" + ` the protocol, ` + "`felix_quic_`" + ` the listener, ` + "`felix_udp_`" + ` the socket, ` + "`felix_host_`" + ` the whole host.

| metric | labels | kind | meaning |
| --- | --- | --- | --- |
`

// probeMetrics are exported only while their probe is attached, which is not
// possible everywhere this program runs.
const probeMetrics = `
## With kernel probes

` + "While a probe is attached (setting `probes`, [configuration](configuration.md)) it adds:" + `

| metric | labels | kind | meaning |
| --- | --- | --- | --- |
| ` + "`felix_kernel_wakeups_total` | `cause` `waker`" + ` | counter | Wakeups of the broker's threads, by what they slept in and who woke them. |
| ` + "`felix_kernel_run_queue_seconds`" + ` |  | histogram | Times a thread of the broker waited for a CPU. |
| ` + "`felix_kernel_on_cpu_seconds`" + ` |  | histogram | Times a thread of the broker ran without a break. |
| ` + "`felix_kernel_preemptions_total`" + ` |  | counter | Times a thread of the broker had to leave its CPU. |
| ` + "`felix_kernel_sends_total`, `felix_kernel_send_bytes_total`" + ` |  | counter | UDP messages the kernel took from the broker, and their payload. |
| ` + "`felix_kernel_sends_refused_total` | `errno`" + ` | counter | UDP messages the kernel refused. |
| ` + "`felix_kernel_receives_total`, `felix_kernel_receive_wakeups_total`, `felix_kernel_receive_empty_total` | `port`" + ` | counter | Messages taken from the sockets of a port, times such a socket was read until it was empty, reads that found nothing. |
| ` + "`felix_kernel_gro_merged_total`, `felix_kernel_gro_segments_total`" + ` |  | counter | Merged datagrams that were read, and the datagrams in them. |
| ` + "`felix_kernel_drops_total` | `reason`" + ` | counter | Datagrams dropped at the receive buffer of the broker's socket. |
`

// writeMetrics documents what a running broker exports.
func writeMetrics(ctx context.Context, w io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "docgen-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c := daemon.DefaultConfig(true)
	c.QUICBind, c.MetricsBind, c.DataDir = "127.0.0.1:0", "off", filepath.Join(dir, "data")
	d, err := daemon.Start(ctx, daemon.Options{Config: c})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Stop(ctx)) }()
	families, err := d.Metrics().Gather()
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(metricsIntro)
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "felix_") {
			continue
		}
		var labels []string
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if name := "`" + l.GetName() + "`"; !slices.Contains(labels, name) {
					labels = append(labels, name)
				}
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.Join(labels, " "), strings.ToLower(f.GetType().String()), f.GetHelp())
	}
	b.WriteString(probeMetrics)
	_, err = io.WriteString(w, b.String())
	return err
}
