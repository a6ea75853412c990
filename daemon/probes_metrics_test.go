package daemon

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"felix/bpf"
)

type receivesSource bpf.Receives

func (r *receivesSource) Describe(chan<- *prometheus.Desc) {}
func (r *receivesSource) Collect(ch chan<- prometheus.Metric) {
	collectReceives(sink{ch}, (*bpf.Receives)(r))
}

// Two sockets of one port do not spoil the metrics.
func TestSocketsOfOnePort(t *testing.T) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(&receivesSource{Sockets: []bpf.SocketReceives{{Cookie: 1, LocalPort: 5000, Receives: 2}, {Cookie: 2, LocalPort: 5000, Receives: 3}}})
	all, err := reg.Gather()
	if err != nil || len(all) != 3 {
		t.Fatalf("%d families, %v", len(all), err)
	}
	for _, f := range all {
		if f.GetName() == "felix_kernel_receives_total" && f.Metric[0].GetCounter().GetValue() != 5 {
			t.Errorf("receives = %v", f.Metric[0])
		}
	}
}
