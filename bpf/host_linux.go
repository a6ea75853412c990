//go:build amd64 || arm64

package bpf

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"felix/platform"
)

// host is the part of [Probes] that differs between systems. Its methods are
// called under the lock of Probes.
type host struct {
	tgid     uint32 // 0: not asked yet
	attached map[Metric]*attachment
	reasons  map[Metric]*Reason // why a wanted metric is off
	pins     *pinDir

	stats       io.Closer // run statistics that we switched on
	statsReason *Reason

	// first is the index of the first variant of a probe that is tried, or its
	// last one. Tests set it to reach what newer kernels do not need.
	first int
}

func (h *host) open(o Options) {
	h.attached = map[Metric]*attachment{}
	h.reasons = map[Metric]*Reason{}
	h.pins = openPins(o.PinDir, o.PinMode)
	raiseMemlock()
	if o.RunStats {
		_ = h.runStats(true) // the reason is kept for Status
	}
}

// raiseMemlock lifts the limit that BPF memory is charged to before Linux 5.11.
// Without the right to do so the limit may still suffice; if not, loading says
// what is missing.
func raiseMemlock() {
	if platform.Kernel().AtLeast(5, 11) {
		return
	}
	_ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
}

// apply attaches and detaches what the mode asks for.
func (h *host) apply(m Mode, sockets map[uint64]Socket) {
	for _, p := range probes {
		if a := h.attached[p.metric]; a != nil && !m.has(p.metric) {
			h.detach(a)
		}
	}
	clear(h.reasons)
	var l *loader
	for _, p := range probes {
		if !m.has(p.metric) || h.attached[p.metric] != nil {
			continue
		}
		if l == nil {
			l = h.newLoader()
		}
		a, reason := l.attach(p)
		if reason != nil {
			h.reasons[p.metric] = reason
			continue
		}
		h.attached[p.metric] = a
		for _, s := range sockets {
			_ = a.watch(s) // a full table: the socket is missing in the snapshot
		}
		h.pins.add(a.maps())
	}
}

// loader holds what several attachments of one go share, and what nobody needs
// afterwards: the object and the kernel's types.
type loader struct {
	spec   *ebpf.CollectionSpec
	types  *btf.Cache
	kernel *btf.Spec
	first  int
	reason *Reason // nothing can be attached
}

func (h *host) newLoader() *loader {
	l := &loader{types: btf.NewCache(), first: h.first}
	spec, err := loadObjects()
	if err != nil {
		l.reason = &Reason{Kind: ReasonOther, Text: "the embedded programs cannot be read", Err: err}
		return l
	}
	l.spec = spec
	if h.tgid == 0 {
		h.tgid, l.reason = l.askTGID()
	}
	if l.reason == nil {
		l.reason = l.prepare(h.tgid)
	}
	return l
}

// prepare gets what each program needs: the kernel's types, and the process to
// look for.
func (l *loader) prepare(tgid uint32) *Reason {
	var err error
	if l.kernel, err = l.types.Kernel(); err != nil {
		return explainNoBTF(err)
	}
	if err := l.spec.Variables[objectsVarOwnTgid].Set(tgid); err != nil {
		return &Reason{Kind: ReasonOther, Text: "the embedded programs cannot be set up", Err: err}
	}
	return nil
}

func (h *host) detach(a *attachment) {
	h.pins.remove(a.maps())
	a.close()
	delete(h.attached, a.metric)
}

func (h *host) runStats(on bool) *Reason {
	h.statsReason = nil
	if !on {
		if h.stats != nil {
			_ = h.stats.Close() // gives up our reference; there is nothing to undo if it fails
			h.stats = nil
		}
		return nil
	}
	if h.stats != nil {
		return nil
	}
	c, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		h.statsReason = explainStats(err)
		return h.statsReason
	}
	h.stats = c
	return nil
}

func (h *host) runStatsState() (bool, *Reason) { return h.stats != nil, h.statsReason }

// statsMeasured reports whether anybody has switched run statistics on.
func (h *host) statsMeasured() bool {
	if h.stats != nil {
		return true
	}
	v, err := platform.SysctlInt("kernel.bpf_stats_enabled")
	return err == nil && v != 0
}

func (h *host) watch(s Socket) error {
	for _, a := range h.attached {
		if err := a.watch(s); err != nil {
			return err
		}
	}
	return nil
}

func (h *host) unwatch(s Socket) {
	for _, a := range h.attached {
		a.unwatch(s)
	}
}

func (h *host) read(s *Snapshot) error {
	var errs []error
	s.Overhead.Measured = h.statsMeasured()
	for _, p := range probes {
		a := h.attached[p.metric]
		if a == nil {
			continue
		}
		if err := p.read(a.collection.Maps, s); err != nil {
			errs = append(errs, err)
			continue
		}
		s.Attached[p.metric] = a.since
		s.Overhead.Programs = append(s.Overhead.Programs, a.costs()...)
	}
	return errors.Join(errs...)
}

func (h *host) status(m Metric) MetricStatus {
	if a := h.attached[m]; a != nil {
		return a.status()
	}
	return MetricStatus{Metric: m, Reason: h.reasons[m]}
}

func (h *host) pinStatus() PinStatus { return h.pins.state() }

func (h *host) close() error {
	for _, p := range probes {
		if a := h.attached[p.metric]; a != nil {
			h.detach(a)
		}
	}
	clear(h.reasons)
	_ = h.runStats(false) // switching off gives no reason
	return h.pins.close()
}

// identify asks a socket for its cookie, which also makes the kernel give it
// one, and for its port.
func identify(fd uintptr) (Socket, error) {
	cookie, err := unix.GetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_COOKIE)
	if err != nil {
		return Socket{}, os.NewSyscallError("getsockopt", err)
	}
	sa, err := unix.Getsockname(int(fd))
	if err != nil {
		return Socket{}, os.NewSyscallError("getsockname", err)
	}
	s := Socket{Cookie: cookie}
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		s.LocalPort = uint16(a.Port)
	case *unix.SockaddrInet6:
		s.LocalPort = uint16(a.Port)
	}
	return s, nil
}

// now is the clock of the programs' stamps, in nanoseconds.
func now() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // cannot happen: the clock exists on every kernel
	}
	return uint64(time.Duration(ts.Nano()))
}
