package daemon

import (
	"net/http"
	"sync/atomic"
)

// phase is where the broker is in its life.
type phase int32

const (
	phaseStarting phase = iota
	phaseReady
	phaseDraining
)

// readiness is asked by /ready and set by start and stop.
type readiness struct{ phase atomic.Int32 }

func (r *readiness) set(p phase) { r.phase.Store(int32(p)) }

// String is the word that /ready answers with.
func (r *readiness) String() string {
	switch phase(r.phase.Load()) {
	case phaseReady:
		return "ok"
	case phaseDraining:
		return "draining"
	default:
		return "starting"
	}
}

func (r *readiness) ready() bool { return phase(r.phase.Load()) == phaseReady }

// register adds the two probes to mux: /live says that the process answers,
// /ready that clients may be sent to it.
func (r *readiness) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) { writePlain(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		code := http.StatusServiceUnavailable
		if r.ready() {
			code = http.StatusOK
		}
		writePlain(w, code, r.String())
	})
}

func writePlain(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text)) // the client is gone if this fails
}
