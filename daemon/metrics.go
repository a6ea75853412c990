package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"felix/platform"
	"felix/transport"
	"felix/udp"
)

// startMetrics binds the HTTP interface, so that /live answers from the start.
func (d *Daemon) startMetrics(ctx context.Context) error {
	d.registry = prometheus.NewRegistry()
	d.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	if d.cfg.MetricsBind == off {
		return nil
	}
	ln, err := d.listenMetrics(ctx)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	d.ready.register(mux)
	mux.Handle("GET /metrics", d.metricsHandler())
	d.metrics = serveHTTP(ln, mux, httpHeaderBytes, d.log)
	d.onStop("HTTP interface", d.metrics.stop)
	d.log.Info("HTTP interface", logAddr, d.MetricsAddr())
	return nil
}

// listenMetrics binds metrics_bind. In development mode a port in use is
// replaced by a free one: two brokers of one developer should just work.
func (d *Daemon) listenMetrics(ctx context.Context) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", d.cfg.MetricsBind)
	if err == nil {
		return ln, nil
	}
	if d.cfg.Dev && errors.Is(err, syscall.EADDRINUSE) {
		if host, _, splitErr := net.SplitHostPort(d.cfg.MetricsBind); splitErr == nil {
			if ln, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, "0")); err == nil {
				d.log.Warn("metrics_bind is in use, another port was chosen", logAddr, ln.Addr().String(), "wanted", d.cfg.MetricsBind)
				return ln, nil
			}
		}
	}
	return nil, listenError("listen on TCP", d.cfg.MetricsBind, err)
}

func (d *Daemon) metricsHandler() http.Handler {
	return promhttp.HandlerFor(d.registry, promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(d.log.Handler(), slog.LevelWarn)})
}

// metricsSource reads the counters of all parts whenever metrics are asked
// for. It describes nothing in advance: what it has follows the counters that
// the packages declare.
type metricsSource struct{ d *Daemon }

func (m metricsSource) Describe(chan<- *prometheus.Desc) {}

func (m metricsSource) Collect(ch chan<- prometheus.Metric) {
	s := sink{ch}
	b := Build()
	s.gauge("felix_build_info", "What the program was built from; always 1.", 1,
		"version", b.Version, "commit", b.Commit, "go", b.Go, "engine", b.Engine)
	s.gauge("felix_engine_packet_ceiling_bytes", "Largest packet the QUIC engine sends or receives.", float64(b.PacketCeilingBytes))
	s.gauge("felix_ready", "1 while clients may be sent here.", boolValue(m.d.ready.ready()))
	m.collectBroker(s)
	m.collectSessions(s)
	m.collectListener(s)
	m.collectHost(s)
	m.collectProbes(s)
}

// sink turns values into metrics. Labels are given as name, value, name, value.
type sink struct{ ch chan<- prometheus.Metric }

func (s sink) gauge(name, help string, v float64, labels ...string) {
	s.emit(prometheus.GaugeValue, name, help, v, labels)
}

func (s sink) counter(name, help string, v uint64, labels ...string) {
	s.emit(prometheus.CounterValue, name, help, float64(v), labels)
}

func (s sink) emit(t prometheus.ValueType, name, help string, v float64, labels []string) {
	desc, values := describe(name, help, labels)
	s.ch <- prometheus.MustNewConstMetric(desc, t, v, values...)
}

func (s sink) histogram(name, help string, count uint64, sum float64, buckets map[float64]uint64, labels ...string) {
	desc, values := describe(name, help, labels)
	s.ch <- prometheus.MustNewConstHistogram(desc, count, sum, buckets, values...)
}

func describe(name, help string, labels []string) (*prometheus.Desc, []string) {
	var names, values []string
	for i := 0; i < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	return prometheus.NewDesc(name, help, names, nil), values
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (m metricsSource) collectListener(s sink) {
	if m.d.listener == nil {
		return
	}
	l := m.d.listener.Stats()
	s.counter("felix_quic_handshakes_total", "QUIC handshakes completed.", l.Accepted)
	s.gauge("felix_quic_connections", "Connections established and not ended.", float64(l.Active))
	s.gauge("felix_quic_handshaking", "Handshakes in progress.", float64(l.Handshaking))
	s.counter("felix_quic_address_proofs_total", "Attempts that had to prove their address first.", l.Proofs)
	s.gauge("felix_quic_window_growth_bytes", "Growth of the connection windows in use, see receive_budget_bytes.", float64(l.WindowBytes))
	s.counter("felix_quic_window_held_total", "Growths of a connection window refused by receive_budget_bytes.", l.WindowHeld)
	for _, kind := range transport.HandshakeFailures() {
		s.counter("felix_quic_handshake_failures_total", "Handshakes that led to no connection.", l.Failures[kind], "kind", kind.String())
	}
	socket := m.d.listener.Socket()
	stats := socket.Stats()
	for c, v := range stats.All() {
		s.counter("felix_udp_"+c.Name()+"_total", c.Doc(), v)
	}
	for _, f := range features(socket.Capabilities()) {
		s.gauge("felix_udp_feature_active", "1 while the socket uses the feature.", boolValue(f.Active), "feature", f.name)
	}
	g := socket.Granted()
	for direction, grant := range map[string]udp.Grant{"receive": g.Read, "send": g.Write} {
		s.gauge("felix_udp_buffer_bytes", "Socket buffer the kernel granted.", float64(grant.Granted), "direction", direction)
	}
}

// collectHost exports the host's UDP counters: drops that no socket can see.
func (m metricsSource) collectHost(s sink) {
	u, err := platform.UDPSnmp()
	if err != nil {
		return // a host without these counters has no such metrics
	}
	for family, c := range map[string]platform.UDPCounters{"ipv4": u.V4, "ipv6": u.V6} {
		for _, v := range []struct {
			name, help string
			value      uint64
		}{
			{"in_datagrams", "Datagrams delivered to sockets.", c.InDatagrams},
			{"no_ports", "Datagrams for ports nobody had open.", c.NoPorts},
			{"in_errors", "Datagrams not delivered for any reason.", c.InErrors},
			{"out_datagrams", "Datagrams sent; a segmented send counts as one.", c.OutDatagrams},
			{"rcvbuf_errors", "Datagrams dropped because a receive buffer was full.", c.RcvbufErrors},
			{"sndbuf_errors", "Datagrams dropped on the way out.", c.SndbufErrors},
			{"in_csum_errors", "Datagrams with a wrong checksum.", c.InCsumErrors},
			{"mem_errors", "Datagrams dropped at the limit net.ipv4.udp_mem.", c.MemErrors},
		} {
			s.counter("felix_host_udp_"+v.name+"_total", "Of the whole host, all programs: "+lowerFirst(v.help), v.value, "family", family)
		}
	}
}

func lowerFirst(text string) string { return strings.ToLower(text[:1]) + text[1:] }
