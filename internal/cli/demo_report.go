package cli

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"felix/daemon"
)

// demoReport is what felix demo reports; MB is 10^6 bytes.
type demoReport struct {
	OK      bool   `json:"ok"`
	Failure string `json:"failure,omitempty"`

	Dir         string `json:"dir"`
	Engine      string `json:"engine"`
	Subscribers int    `json:"subscribers"`
	Files       uint64 `json:"files"`
	Messages    uint64 `json:"messages"`
	Bytes       uint64 `json:"bytes"`
	ElapsedUS   int64  `json:"elapsed_us"` // first publish to last delivery

	PublishedMBPerS float64 `json:"published_mb_per_s"`
	DeliveredMBPerS float64 `json:"delivered_mb_per_s"` // all subscribers together

	// QueueingDelayUS is publish to delivery at full load: it includes the time
	// in queues and is no latency.
	QueueingDelayUS *percentiles `json:"queueing_delay_us,omitempty"`
	// LatencyUS is publish to delivery with one message under way at a time.
	LatencyUS       *percentiles `json:"latency_us,omitempty"`
	LatencyMessages int          `json:"latency_messages,omitempty"`
}

// percentiles are of a distribution, in microseconds.
type percentiles struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

func percentilesOf(h *hdrhistogram.Histogram) *percentiles {
	us := func(n int64) float64 { return float64(n) / 1000 }
	return &percentiles{
		P50: us(h.ValueAtQuantile(50)), P90: us(h.ValueAtQuantile(90)), P99: us(h.ValueAtQuantile(99)),
		P999: us(h.ValueAtQuantile(99.9)), Max: us(h.Max()),
	}
}

// addTransfer compares what was sent with what every subscriber got.
func (r *demoReport) addTransfer(elapsed time.Duration, sent *sentFiles, checks []*checker) error {
	delays := newHistogram()
	var delivered uint64
	for i, c := range checks {
		if c.messages != sent.messages || c.bytes != sent.bytes || !bytes.Equal(c.all.Sum(nil), sent.digest) {
			return errDemo("subscriber %d: got %d messages with %d bytes, sent were %d with %d", i+1, c.messages, c.bytes, sent.messages, sent.bytes)
		}
		delivered += c.bytes
		delays.Merge(c.delays)
	}
	r.Engine = daemon.Build().Engine
	r.Files, r.Messages, r.Bytes = uint64(len(checks[0].files)), sent.messages, sent.bytes
	r.ElapsedUS = elapsed.Microseconds()
	r.PublishedMBPerS = float64(sent.bytes) / 1e6 / elapsed.Seconds()
	r.DeliveredMBPerS = float64(delivered) / 1e6 / elapsed.Seconds()
	r.QueueingDelayUS = percentilesOf(delays)
	return nil
}

// printDemo writes the report and the verdict.
func (a *app) printDemo(r demoReport) error {
	if a.json() {
		return a.writeJSON(r)
	}
	if r.Files > 0 {
		rows := [][]string{
			{"folder", r.Dir},
			{"files", strconv.FormatUint(r.Files, 10)},
			{"messages", strconv.FormatUint(r.Messages, 10)},
			{"bytes", strconv.FormatUint(r.Bytes, 10)},
			{"subscribers", fmt.Sprintf("%d, each with a connection of its own", r.Subscribers)},
			{"checked", fmt.Sprintf("SHA-256, name and order of every file, %d times", r.Subscribers)},
			{"time", fmt.Sprintf("%.2f s", float64(r.ElapsedUS)/1e6)},
			{"published", fmt.Sprintf("%.1f MB/s", r.PublishedMBPerS)},
			{"delivered", fmt.Sprintf("%.1f MB/s", r.DeliveredMBPerS)},
			{"queueing delay", r.QueueingDelayUS.String() + " (at full load, not a latency)"},
		}
		if r.LatencyUS != nil {
			rows = append(rows, []string{"latency", fmt.Sprintf("%s (%d messages of %d B, one at a time)", r.LatencyUS, r.LatencyMessages, latencyPayload)})
		}
		if err := a.table(append(rows, []string{"engine", r.Engine})); err != nil {
			return err
		}
	}
	if !r.OK {
		return a.printf("demo: FAILED: %s\n", daemon.Printable(r.Failure))
	}
	return a.printf("demo: ok\n")
}

func (p *percentiles) String() string {
	return fmt.Sprintf("p50 %s, p90 %s, p99 %s, p99.9 %s, max %s", us(p.P50), us(p.P90), us(p.P99), us(p.P999), us(p.Max))
}

// us shows microseconds in a unit that suits the size.
func us(v float64) string {
	if v >= 10_000 {
		return fmt.Sprintf("%.1f ms", v/1000)
	}
	return fmt.Sprintf("%.0f us", v)
}
