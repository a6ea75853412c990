package udpprobe

import "testing"

func TestLedger(t *testing.T) {
	const run, size = 77, 100
	l := ledger{run: run, segment: size}
	dg := func(number uint64, n int) []byte {
		d := make([]byte, n)
		stamp(d, run, number)
		return d
	}
	other := make([]byte, size)
	stamp(other, run+1, 0)
	torn := dg(5, size) // the end of one datagram, the start of another
	copy(torn[size-trailerLen:], dg(6, size)[size-trailerLen:])
	for i, c := range []struct {
		d    []byte
		want verdict
	}{
		{dg(0, size), fresh},
		{dg(2, size), fresh},
		{dg(1, size), fresh}, // late
		{dg(1, size), duplicate},
		{dg(100_000, size), fresh},
		{other, foreign},
		{dg(3, size)[:8], foreign},
		{dg(3, size-1), corrupt},
		{dg(3, size+1), corrupt},
		{torn, corrupt},
		{dg(maxNumber, size), corrupt},
		{nil, foreign},
	} {
		if got := l.add(c.d); got != c.want {
			t.Errorf("datagram %d: %v, want %v", i, got, c.want)
		}
	}
	if l.distinct != 4 || l.duplicates != 1 || l.reordered != 1 || l.foreign != 3 || l.corrupt != 4 || l.next != 100_001 {
		t.Errorf("ledger: distinct %d, duplicates %d, reordered %d, foreign %d, corrupt %d, next %d",
			l.distinct, l.duplicates, l.reordered, l.foreign, l.corrupt, l.next)
	}
}

func TestSmallestDatagramHasNoTrailer(t *testing.T) {
	for _, size := range []int{headerLen, headerLen + trailerLen - 1, headerLen + trailerLen} {
		l := ledger{run: 1, segment: size}
		d := make([]byte, size)
		stamp(d, 1, 9)
		if got := l.add(d); got != fresh {
			t.Errorf("%d bytes: %v", size, got)
		}
	}
}
