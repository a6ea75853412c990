package transport

import (
	"context"
	"log/slog"
	"sync"
)

// countingHandler counts log lines by the value of their attribute "kind".
type countingHandler struct {
	mu    sync.Mutex
	lines map[string]int
}

func (h *countingHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h *countingHandler) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *countingHandler) WithGroup(string) slog.Handler            { return h }

func (h *countingHandler) Handle(_ context.Context, r slog.Record) error {
	kind := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "kind" {
			kind = a.Value.String()
		}
		return true
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lines == nil {
		h.lines = make(map[string]int)
	}
	h.lines[kind]++
	return nil
}

func (h *countingHandler) count(kind string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lines[kind]
}
