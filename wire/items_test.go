package wire

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// itemsOf returns a parsed view of the payloads.
func itemsOf(t interface{ Fatal(...any) }, payloads [][]byte) Items {
	it, err := parseItems(appendItems(nil, payloads))
	if err != nil {
		t.Fatal(err)
	}
	return it
}

func TestItemsZeroValue(t *testing.T) {
	var it Items
	if it.Len() != 0 || it.Bytes() != 0 || collect(it) != nil || len(collectRuns(it, 1, 1)) != 0 {
		t.Error("the zero value is not an empty batch")
	}
}

// An owner of a payload who appends to it must not reach the next one.
func TestItemsAreCapped(t *testing.T) {
	it := itemsOf(t, [][]byte{[]byte("one"), []byte("two")})
	for p := range it.All() {
		_ = append(p, "xxxx"...)
	}
	if got := collect(it); string(got[1]) != "two" {
		t.Errorf("second item became %q", got[1])
	}
	if cap(it.Raw()) != len(it.Raw()) || cap(it.Body()) != len(it.Body()) {
		t.Error("Raw or Body can be appended to")
	}
}

func TestItemsAllStops(t *testing.T) {
	it := itemsOf(t, [][]byte{[]byte("one"), []byte("two")})
	for p := range it.All() {
		if string(p) != "one" {
			t.Fatalf("got %q after the break", p)
		}
		break
	}
}

func TestItemsSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		payloads := genPayloads().Draw(t, "payloads")
		from := rapid.IntRange(0, len(payloads)).Draw(t, "from")
		to := rapid.IntRange(from, len(payloads)).Draw(t, "to")
		part := itemsOf(t, payloads).Slice(from, to)
		checkItems(t, part, payloads[from:to])
		if got, want := part.Raw() != nil, to-from == len(payloads); got != want {
			t.Fatalf("Slice(%d, %d) of %d has Raw: %v", from, to, len(payloads), got)
		}
		a := rapid.IntRange(0, part.Len()).Draw(t, "a")
		checkItems(t, part.Slice(a, part.Len()), payloads[from+a:to])
	})
	it := itemsOf(t, [][]byte{{}, {}})
	for _, r := range [][2]int{{-1, 1}, {2, 1}, {0, 3}} {
		if !panics(func() { it.Slice(r[0], r[1]) }) {
			t.Errorf("Slice%v does not panic", r)
		}
	}
}

func collectRuns(it Items, maxEvents, maxBytes int) []Items {
	return slices.Collect(SplitItems(it, maxEvents, maxBytes))
}

// checkRuns verifies all that SplitItems promises about runs of it.
func checkRuns(t interface {
	Fatalf(string, ...any)
}, it Items, runs []Items, maxEvents, maxBytes int) {
	var body []byte
	items := 0
	for i, run := range runs {
		if run.Len() == 0 {
			t.Fatalf("run %d is empty", i)
		}
		if maxEvents > 0 && run.Len() > maxEvents {
			t.Fatalf("run %d has %d items, limit %d", i, run.Len(), maxEvents)
		}
		if maxBytes > 0 && run.Bytes() > maxBytes && run.Len() > 1 {
			t.Fatalf("run %d has %d items of %d bytes, limit %d", i, run.Len(), run.Bytes(), maxBytes)
		}
		// A run ends only where its next item would not have fitted.
		if i > 0 {
			first := slices.Collect(run.All())[0]
			prev := runs[i-1]
			if (maxEvents < 1 || prev.Len() < maxEvents) && (maxBytes < 1 || prev.Bytes()+len(first) <= maxBytes) {
				t.Fatalf("run %d could have held one more item", i-1)
			}
		}
		items += run.Len()
		body = append(body, run.Body()...)
	}
	if items != it.Len() || !bytes.Equal(body, it.Body()) {
		t.Fatalf("%d runs have %d of %d items, bytes equal: %v", len(runs), items, it.Len(), bytes.Equal(body, it.Body()))
	}
}

func TestSplitItemsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		payloads := genPayloads().Draw(t, "payloads")
		maxEvents := rapid.IntRange(-1, 6).Draw(t, "maxEvents")
		maxBytes := rapid.IntRange(-1, 90).Draw(t, "maxBytes")
		it := itemsOf(t, payloads)
		runs := collectRuns(it, maxEvents, maxBytes)
		checkRuns(t, it, runs, maxEvents, maxBytes)
		at := 0
		for _, run := range runs {
			checkItems(t, run, payloads[at:at+run.Len()])
			at += run.Len()
		}
	})
}

func TestSplitItems(t *testing.T) {
	sized := func(sizes ...int) (list [][]byte) {
		for i, n := range sizes {
			list = append(list, bytes.Repeat([]byte{byte('a' + i)}, n))
		}
		return list
	}
	tests := []struct {
		name                string
		sizes               []int
		maxEvents, maxBytes int
		want                []int // items per run
	}{
		{"empty", nil, 1, 1, nil},
		{"fits", []int{5, 5}, 2, 10, []int{2}},
		{"one byte over", []int{5, 6}, 2, 10, []int{1, 1}},
		{"too many", []int{1, 1, 1, 1, 1}, 2, 100, []int{2, 2, 1}},
		{"larger payload alone", []int{1, 50, 1, 1}, 64, 10, []int{1, 1, 2}},
		{"all larger", []int{50, 50}, 64, 10, []int{1, 1}},
		{"empty items count as events", []int{0, 0, 0}, 2, 10, []int{2, 1}},
		{"empty after full", []int{10, 0, 0}, 64, 10, []int{3}},
		{"no limits", []int{100, 200, 300}, 0, 0, []int{3}},
		{"no event limit", []int{4, 4, 4}, 0, 8, []int{2, 1}},
		{"no byte limit", []int{4, 4, 4}, 2, 0, []int{2, 1}},
	}
	for _, tt := range tests {
		it := itemsOf(t, sized(tt.sizes...))
		runs := collectRuns(it, tt.maxEvents, tt.maxBytes)
		var got []int
		for _, run := range runs {
			got = append(got, run.Len())
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: runs of %v, want %v", tt.name, got, tt.want)
		}
		checkRuns(t, it, runs, tt.maxEvents, tt.maxBytes)
		if len(runs) == 1 && runs[0].Raw() == nil {
			t.Errorf("%s: a batch within the limits lost its Raw", tt.name)
		}
		for range SplitItems(it, tt.maxEvents, tt.maxBytes) {
			break // a consumer may stop early
		}
	}
}
