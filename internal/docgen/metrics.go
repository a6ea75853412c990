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
	_, err = io.WriteString(w, b.String())
	return err
}
