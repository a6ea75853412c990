package udp

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

func splitAll(data []byte, stride int) ([][]byte, bool) {
	p, ok := split(data, stride)
	if !ok {
		return nil, false
	}
	var got [][]byte
	count := p.count()
	for {
		d, ok := p.next()
		if !ok {
			break
		}
		got = append(got, d)
	}
	if len(got) != count || p.count() != 0 {
		panic("count is wrong")
	}
	return got, true
}

func TestSplit(t *testing.T) {
	for _, x := range []struct {
		n, stride int
		want      []int // nil: not to be trusted
	}{
		{6001, 1200, []int{1200, 1200, 1200, 1200, 1200, 1}},
		{6000, 1200, []int{1200, 1200, 1200, 1200, 1200}},
		{1200, 1200, []int{1200}},
		{600, 1200, []int{600}},
		{1200, 0, []int{1200}},
		{0, 0, []int{0}},
		{0, 1200, []int{0}},
		{3, 1, []int{1, 1, 1}},
		{1200, -1, nil},
	} {
		data := numbered(1, x.n)
		got, ok := splitAll(data, x.stride)
		if ok != (x.want != nil) || len(got) != len(x.want) {
			t.Errorf("%d by %d: %d pieces, %v", x.n, x.stride, len(got), ok)
			continue
		}
		for i, d := range got {
			if len(d) != x.want[i] {
				t.Errorf("%d by %d: piece %d has %d bytes", x.n, x.stride, i, len(d))
			}
		}
		if ok && !bytes.Equal(bytes.Join(got, nil), data) {
			t.Errorf("%d by %d: bytes changed", x.n, x.stride)
		}
	}
}

func TestSplitProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkSplit(t, make([]byte, rapid.IntRange(0, maxRead).Draw(t, "n")), rapid.IntRange(-5, maxRead+5).Draw(t, "stride"))
	})
}

func checkSplit(t interface{ Fatalf(string, ...any) }, data []byte, stride int) {
	got, ok := splitAll(data, stride)
	if !ok {
		if stride >= 0 {
			t.Fatalf("%d by %d: refused", len(data), stride)
		}
		return
	}
	total := 0
	for i, d := range got {
		total += len(d)
		if stride > 0 && (len(d) > stride || i < len(got)-1 && len(d) != stride) {
			t.Fatalf("%d by %d: piece %d has %d bytes", len(data), stride, i, len(d))
		}
		if len(d) == 0 && len(data) != 0 || cap(d) != len(d) {
			t.Fatalf("%d by %d: piece %d is empty or reaches into its neighbour", len(data), stride, i)
		}
	}
	if total != len(data) || len(got) == 0 {
		t.Fatalf("%d by %d: %d pieces of %d bytes together", len(data), stride, len(got), total)
	}
}

func FuzzSplit(f *testing.F) {
	f.Add(6001, 1200)
	f.Add(0, 0)
	f.Add(65507, 1)
	f.Add(1, -1)
	f.Fuzz(func(t *testing.T, n, stride int) {
		if n < 0 || n > maxRead {
			return // outside of what a read can be
		}
		checkSplit(t, make([]byte, n), stride)
	})
}
