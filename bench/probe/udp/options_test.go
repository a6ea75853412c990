package udpprobe

import (
	"errors"
	"strings"
	"testing"
	"time"

	"felix/bench/probe"
)

func TestMeaninglessRunsAreRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*Options)
		says  string // "": accepted
	}{
		{"defaults", func(*Options) {}, ""},
		{"smallest datagram", func(o *Options) { o.Segment, o.Aggregate = 16, 16*4096 }, ""},
		{"largest datagram", func(o *Options) { o.Segment = 65507 }, ""},
		{"largest IPv6 datagram", func(o *Options) { o.Segment, o.V6 = 65527, true }, ""},
		{"several aggregates a write", func(o *Options) { o.Segment, o.Aggregate = 16336, 163360 }, ""},
		{"shortest run", func(o *Options) { o.Duration = 100 * time.Millisecond }, ""},
		{"no segment", func(o *Options) { o.Segment = 0 }, "too small"},
		{"negative segment", func(o *Options) { o.Segment = -1 }, "too small"},
		{"no room for the number", func(o *Options) { o.Segment = 15 }, "at least 16"},
		{"datagram too large", func(o *Options) { o.Segment = 65508 }, "larger than a datagram"},
		{"IPv6 datagram too large", func(o *Options) { o.Segment, o.V6 = 65528, true }, "larger than a datagram"},
		{"absurd segment", func(o *Options) { o.Segment = 1 << 30 }, "larger than a datagram"},
		{"aggregate below segment", func(o *Options) { o.Aggregate = 1451 }, "holds no segment"},
		{"negative aggregate", func(o *Options) { o.Aggregate = -1 }, "out of range"},
		{"absurd aggregate", func(o *Options) { o.Aggregate = 1 << 30 }, "out of range"},
		{"too many a write", func(o *Options) { o.Segment, o.Aggregate = 16, 16*4097 }, "too many"},
		{"no time", func(o *Options) { o.Duration = 0 }, "duration"},
		{"99 ms", func(o *Options) { o.Duration = 99 * time.Millisecond }, "duration"},
		{"an hour", func(o *Options) { o.Duration = time.Hour }, "duration"},
		{"negative buffer", func(o *Options) { o.Buffer = -1 }, "buffer"},
	} {
		o := DefaultOptions()
		c.spoil(&o)
		err := o.validate()
		if c.says == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		var bad *probe.InvalidMeasurement
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want an invalid measurement that says %q", c.name, err, c.says)
		}
		// Run must refuse before it starts anything.
		if _, err := Run(t.Context(), o, probe.Launcher{Program: "/nonexistent"}, nil); !errors.As(err, &bad) {
			t.Errorf("%s: Run gave %v", c.name, err)
		}
	}
}

func TestPerWriteAndWindow(t *testing.T) {
	for _, c := range []struct{ segment, aggregate, want int }{
		{1452, 0, 45}, {1200, 0, 54}, {16336, 0, 4}, {65507, 0, 1},
		{16336, 163360, 10}, {1000, 2999, 2}, {1000, 1000, 1},
	} {
		o := Options{Segment: c.segment, Aggregate: c.aggregate}
		if got := o.perWrite(); got != c.want {
			t.Errorf("%d in %d: %d, want %d", c.segment, c.aggregate, got, c.want)
		}
	}
	o := Options{Segment: 1452}
	if got := o.window(8 << 20); got != 1601 {
		t.Errorf("window of 8 MiB: %d datagrams", got)
	}
	if got := o.window(100); got != 1 {
		t.Errorf("window of a tiny buffer: %d", got)
	}
}
