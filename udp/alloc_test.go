//go:build !race

package udp

import "testing"

// In steady state neither path allocates, with everything on and with
// everything off.
func TestNoAllocations(t *testing.T) {
	for _, combo := range []combination{{true, true, true, true}, {}} {
		for _, n := range []int{1, 40} {
			l := newLoop(t, combo.config(), n, 1452)
			allocs := testing.AllocsPerRun(200, func() {
				l.send(t)
				l.receive(t)
			})
			if allocs != 0 {
				t.Errorf("%v, %d datagrams: %v allocations a round", combo, n, allocs)
			}
		}
	}
	l := newLoop(t, Config{}, 40, 1452)
	ds := batch(repeat(40, 1452)...)
	to := addrOf(l.c)
	if allocs := testing.AllocsPerRun(200, func() {
		if _, err := l.c.WriteDatagrams(ds, l.oob[:24], to); err != nil {
			t.Fatal(err)
		}
		l.receive(t)
	}); allocs != 0 {
		t.Errorf("WriteDatagrams: %v allocations a round", allocs)
	}
}
