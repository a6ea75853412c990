package daemon

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"

	"felix/bpf"
)

// startProbes attaches the kernel probes that the settings ask for. What the
// host cannot give is off, unless probes_required says otherwise.
func (d *Daemon) startProbes(context.Context) error {
	mode, err := bpf.ParseMode(d.cfg.Probes)
	if err != nil {
		return err
	}
	if d.probes, err = bpf.Open(bpf.Options{Mode: mode, PinDir: d.cfg.ProbesPinDir}); err != nil {
		return &StartError{Step: "probes", Err: err}
	}
	d.onStop("probes", func(context.Context) error { return d.probes.Close() })
	return d.checkProbes(d.cfg.ProbesRequired)
}

// checkProbes logs what is off although it was asked for; with required the
// first such thing is an error.
func (d *Daemon) checkProbes(required bool) error {
	st := d.probes.Status()
	for _, m := range st.Metrics {
		if m.On || m.Reason == nil || m.Reason.Kind == bpf.ReasonMode {
			continue
		}
		if required {
			return &StartError{Step: "probe " + string(m.Metric), Err: m.Reason, Hint: "or leave probes_required out"}
		}
		d.log.Warn("probe is off", "probe", string(m.Metric), logReason, m.Reason.Error(), logError, m.Reason.Err)
	}
	for _, path := range st.Pins.Stale {
		d.log.Warn("a pin that a killed broker left was replaced", logPath, path)
	}
	if r := st.Pins.Reason; r != nil {
		if required {
			return &StartError{Step: "pins in " + st.Pins.Dir, Err: r}
		}
		d.log.Warn("maps are not pinned", logPath, st.Pins.Dir, logReason, r.Error())
	}
	return nil
}

// watchSocket has the probes tell the listener's socket from others.
func (d *Daemon) watchSocket() error {
	raw, err := d.listener.Socket().SyscallConn()
	if err != nil {
		return err
	}
	var watchErr error
	err = raw.Control(func(fd uintptr) { _, watchErr = d.probes.Watch(fd) })
	return errors.Join(err, watchErr)
}

// A ProbesReport is the answer to GET /v1/probes.
type ProbesReport struct {
	Status   bpf.Status   `json:"status"`
	Snapshot bpf.Snapshot `json:"snapshot"`
}

func (d *Daemon) probesReport(*http.Request) (any, error) {
	s, err := d.probes.Snapshot()
	return ProbesReport{Status: d.probes.Status(), Snapshot: s}, err
}

// setProbes changes what is probed while the broker serves.
func (d *Daemon) setProbes(r *http.Request) (any, error) {
	var body struct {
		Mode     *bpf.Mode `json:"mode"`
		RunStats *bool     `json:"run_stats"`
	}
	if err := readBody(r, &body); err != nil {
		return nil, err
	}
	if body.Mode != nil {
		if err := d.probes.SetMode(*body.Mode); err != nil {
			return nil, err
		}
		d.log.Info("probes set", "mode", body.Mode.String())
	}
	if body.RunStats != nil {
		if err := d.probes.SetRunStats(*body.RunStats); err != nil {
			return nil, &httpError{http.StatusConflict, err}
		}
	}
	return d.probesReport(r)
}

// reloadProbes takes over a changed setting.
func (d *Daemon) reloadProbes(next *Config) error {
	mode, err := bpf.ParseMode(next.Probes)
	if err != nil || mode == d.probes.Mode() {
		return err
	}
	if err := d.probes.SetMode(mode); err != nil {
		return err
	}
	return d.checkProbes(next.ProbesRequired)
}

// collectProbes exports what the kernel probes count. A probe that is off has
// no metrics but the one that says so.
func (m metricsSource) collectProbes(s sink) {
	p := m.d.probes
	if p == nil {
		return
	}
	for _, e := range p.Status().Metrics {
		s.gauge("felix_probe_on", "1 while the kernel probe is attached.", boolValue(e.On), "probe", string(e.Metric))
	}
	snap, err := p.Snapshot()
	if err != nil {
		m.d.log.Warn("probes cannot be read", logError, err)
	}
	if w := snap.Wakeups; w != nil {
		collectWakeups(s, w)
	}
	if c := snap.CPUTime; c != nil {
		secondsHistogram(s, "felix_kernel_run_queue_seconds", "Times a thread of the broker waited for a CPU.", c.RunQueue)
		secondsHistogram(s, "felix_kernel_on_cpu_seconds", "Times a thread of the broker ran without a break.", c.OnCPU)
		s.counter("felix_kernel_preemptions_total", "Times a thread of the broker had to leave its CPU.", c.Preemptions)
	}
	if x := snap.Sends; x != nil {
		s.counter("felix_kernel_sends_total", "UDP messages the kernel took from the broker.", x.Sent)
		s.counter("felix_kernel_send_bytes_total", "Payload bytes of those messages.", x.Bytes)
		refused := map[string]uint64{}
		for _, e := range x.Errors {
			refused[e.Name] += e.Count
		}
		for errno, n := range refused {
			s.counter("felix_kernel_sends_refused_total", "UDP messages the kernel refused, by error.", n, "errno", errno)
		}
	}
	if r := snap.Receives; r != nil {
		collectReceives(s, r)
	}
	if g := snap.GRO; g != nil {
		s.counter("felix_kernel_gro_merged_total", "Merged datagrams that were read.", g.Merged)
		s.counter("felix_kernel_gro_segments_total", "Datagrams in them.", g.Segments)
	}
	if x := snap.Drops; x != nil {
		collectDrops(s, x)
	}
}

func collectWakeups(s sink, w *bpf.Wakeups) {
	type kind struct {
		cause bpf.Cause
		waker bpf.Waker
	}
	counts := map[kind]uint64{}
	for _, e := range w.By {
		counts[kind{e.Cause, e.Waker}] += e.Count
	}
	for k, n := range counts {
		s.counter("felix_kernel_wakeups_total", "Wakeups of the broker's threads, by what they slept in and who woke them.", n,
			"cause", string(k.cause), "waker", string(k.waker))
	}
}

// collectReceives adds up the sockets of a port: one for each IP version, or a
// closed one beside its successor.
func collectReceives(s sink, r *bpf.Receives) {
	ports := map[uint16]bpf.SocketReceives{}
	for _, x := range r.Sockets {
		p := ports[x.LocalPort]
		p.Receives, p.Wakeups, p.Empty = p.Receives+x.Receives, p.Wakeups+x.Wakeups, p.Empty+x.Empty
		ports[x.LocalPort] = p
	}
	for number, x := range ports {
		port := strconv.Itoa(int(number))
		s.counter("felix_kernel_receives_total", "Messages the broker took from the sockets of a port.", x.Receives, "port", port)
		s.counter("felix_kernel_receive_wakeups_total", "Times such a socket was read until it was empty.", x.Wakeups, "port", port)
		s.counter("felix_kernel_receive_empty_total", "Reads of such a socket that found nothing.", x.Empty, "port", port)
	}
}

func collectDrops(s sink, d *bpf.Drops) {
	var full, memory, other uint64
	for _, x := range d.Sockets {
		full, memory, other = full+x.BufferFull, memory+x.Memory, other+x.Other
	}
	for reason, n := range map[string]uint64{"buffer_full": full, "memory": memory, "other": other} {
		s.counter("felix_kernel_drops_total", "Datagrams dropped at the receive buffer of the broker's socket.", n, "reason", reason)
	}
}

// secondsHistogram exports a histogram of nanoseconds in powers of two.
func secondsHistogram(s sink, name, help string, h bpf.Histogram) {
	buckets := map[float64]uint64{}
	var below uint64
	for i, n := range h.Slots {
		below += n
		if i < len(h.Slots)-1 { // the last slot has no upper bound
			buckets[math.Ldexp(1, i+1)/1e9] = below
		}
	}
	s.histogram(name, help, h.Count, float64(h.Sum)/1e9, buckets)
}
