package daemon

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"felix/internal/testkit"
)

// probesHost reports whether this host should give every probe.
func probesHost() bool { return runtime.GOOS == "linux" && os.Geteuid() == 0 }

// TestProbes shows the three settings, and that probes are switched while the
// broker serves.
func TestProbes(t *testing.T) {
	c := testConfig(t)
	d, _ := startDaemon(t, c)
	if _, text := get(t, "http://"+d.MetricsAddr()+"/metrics"); !strings.Contains(text, `felix_probe_on{probe="wakeups"} 0`) || strings.Contains(text, "felix_kernel_") {
		t.Error("probes are on by default")
	}
	code, text := admin(t, d, http.MethodPost, "/v1/probes", `{"mode":"everything"}`)
	if code != http.StatusBadRequest || !strings.Contains(text, "want off, sched or full") {
		t.Errorf("nonsense mode = %d %s", code, text)
	}
	if !probesHost() {
		c := testConfig(t)
		c.Probes, c.ProbesRequired = "full", true
		if _, err := Start(t.Context(), Options{Config: c}); err == nil {
			t.Error("probes_required started without probes")
		}
		testkit.Missing(t, "Linux and root (CAP_BPF and CAP_PERFMON)")
	}

	code, text = admin(t, d, http.MethodPost, "/v1/probes", `{"mode":"full"}`)
	report := decode[struct {
		Status struct {
			Metrics []struct {
				Metric string          `json:"metric"`
				On     bool            `json:"on"`
				Reason json.RawMessage `json:"reason"`
			} `json:"metrics"`
		} `json:"status"`
	}](t, code, text)
	for _, m := range report.Status.Metrics {
		if !m.On {
			t.Errorf("probe %s is off: %s", m.Metric, m.Reason)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := connect(t, d).Publish(ctx, "s", []byte("x")); err != nil {
		t.Fatal(err)
	}
	_, text = get(t, "http://"+d.MetricsAddr()+"/metrics")
	for _, want := range []string{"felix_kernel_wakeups_total{", "felix_kernel_receives_total{", "felix_kernel_sends_total ", "felix_kernel_drops_total{", "felix_kernel_run_queue_seconds_count "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	stopDaemon(t, d)

	pins := filepath.Join("/sys/fs/bpf", filepath.Base(filepath.Dir(c.DataDir)))
	c = testConfig(t)
	c.Probes, c.ProbesRequired, c.ProbesPinDir = "sched", true, pins
	if _, err := os.Stat("/sys/fs/bpf"); err != nil {
		c.ProbesPinDir = ""
	}
	d, err := Start(t.Context(), Options{Config: c})
	if err != nil {
		if c.ProbesPinDir != "" && strings.Contains(err.Error(), "pins in "+pins) {
			t.Logf("no BPF file system here: %v", err)
			return
		}
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(pins); c.ProbesPinDir != "" && (err != nil || len(entries) == 0) {
		t.Errorf("no pins in %s: %v", pins, err)
	}
	stopDaemon(t, d)
	if _, err := os.Stat(pins); err == nil {
		t.Error("pins are left behind")
	}
}
