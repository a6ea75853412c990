package platform

import "testing"

func TestCountersAddAndSubtract(t *testing.T) {
	before := UDPStats{
		V4: UDPCounters{InDatagrams: 10, NoPorts: 1, InErrors: 5, OutDatagrams: 7, RcvbufErrors: 3, SndbufErrors: 2, InCsumErrors: 1, MemErrors: 1},
		V6: UDPCounters{InDatagrams: 100},
	}
	after := UDPStats{
		V4: UDPCounters{InDatagrams: 30, NoPorts: 2, InErrors: 9, OutDatagrams: 17, RcvbufErrors: 6, SndbufErrors: 4, InCsumErrors: 2, MemErrors: 3},
		V6: UDPCounters{InDatagrams: 40},
	}
	d := after.Sub(before)
	want := UDPCounters{InDatagrams: 20, NoPorts: 1, InErrors: 4, OutDatagrams: 10, RcvbufErrors: 3, SndbufErrors: 2, InCsumErrors: 1, MemErrors: 2}
	if d.V4 != want {
		t.Errorf("difference %+v, want %+v", d.V4, want)
	}
	if d.V6.InDatagrams != 0 {
		t.Errorf("a counter that went backwards gave %d, want 0", d.V6.InDatagrams)
	}
	if got := before.Total().InDatagrams; got != 110 {
		t.Errorf("total %d, want 110", got)
	}
}
