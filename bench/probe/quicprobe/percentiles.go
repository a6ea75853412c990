package quicprobe

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Percentiles of times, in microseconds.
type Percentiles struct {
	P50  float64 `json:"p50_us"`
	P99  float64 `json:"p99_us"`
	P999 float64 `json:"p999_us"`
	Max  float64 `json:"max_us"`
}

// newHistogram holds times from 1 ns to an hour in nanoseconds, to three digits.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(time.Hour), 3) }

// percentiles reads a histogram of nanoseconds.
func percentiles(h *hdrhistogram.Histogram) *Percentiles {
	us := func(ns int64) float64 { return float64(ns) / 1e3 }
	return &Percentiles{
		P50:  us(h.ValueAtQuantile(50)),
		P99:  us(h.ValueAtQuantile(99)),
		P999: us(h.ValueAtQuantile(99.9)),
		Max:  us(h.Max()),
	}
}
