//go:build !linux || (!amd64 && !arm64)

package bpf

import "runtime"

// host is the part of [Probes] that differs between systems. Here it holds
// nothing.
type host struct {
	wantsPins, wantsRunStats bool
}

var unsupported = &Reason{
	Kind: ReasonPlatform,
	Text: "there are no kernel probes on " + runtime.GOOS + "/" + runtime.GOARCH,
}

func (h *host) open(o Options) { h.wantsPins, h.wantsRunStats = o.PinDir != "", o.RunStats }

func (h *host) apply(Mode, map[uint64]Socket) {}

func (h *host) runStats(on bool) *Reason {
	h.wantsRunStats = on
	if on {
		return unsupported
	}
	return nil
}

func (h *host) runStatsState() (bool, *Reason) {
	if h.wantsRunStats {
		return false, unsupported
	}
	return false, nil
}

func (h *host) watch(Socket) error { return nil }

func (h *host) unwatch(Socket) {}

func (h *host) read(*Snapshot) error { return nil }

func (h *host) status(m Metric) MetricStatus { return MetricStatus{Metric: m, Reason: unsupported} }

func (h *host) pinStatus() PinStatus {
	if h.wantsPins {
		return PinStatus{Reason: unsupported}
	}
	return PinStatus{}
}

func (h *host) close() error { return nil }

func identify(uintptr) (Socket, error) { return Socket{}, nil }
