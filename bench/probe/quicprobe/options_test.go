package quicprobe

import (
	"errors"
	"strings"
	"testing"
	"time"

	"felix/bench/probe"
	"felix/transport"
	"felix/udp"
)

var stockEngine = transport.EngineInfo{Name: "quic-go v0 stock", PacketCeiling: 1452}

func TestMeaninglessRunsAreRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		kind  Kind
		spoil func(*Options)
		says  string // "": accepted
	}{
		{"defaults", Raw, func(*Options) {}, ""},
		{"defaults", Relay, func(*Options) {}, ""},
		{"128 MiB", Raw, func(o *Options) { o.Bytes = 128 << 20 }, ""},
		{"a chunk less", Raw, func(o *Options) { o.Bytes = 128<<20 - 256<<10 }, "at least 134217728"},
		{"allowed to be small", Raw, func(o *Options) { o.Bytes, o.AllowSmall = 1, true }, ""},
		{"rounded up to 128 MiB", Raw, func(o *Options) { o.Bytes, o.Chunk = 128<<20-1, 16<<20 }, ""},
		{"less than the socket buffers", Raw, func(o *Options) { o.Buffer, o.Bytes = 256<<20, 512<<20-1<<20 }, "at least 536870912"},
		{"less than the windows", Raw, func(o *Options) { o.Window = 300 << 20 }, "at least 629145600"},
		{"less than all connections' windows", Raw, func(o *Options) { o.Window, o.Connections = 64<<20, 5 }, "at least 671088640"},
		{"grown windows of many streams", Relay, func(o *Options) { o.Streams = 64 }, "at least 536870912"},
		{"no bytes", Raw, func(o *Options) { o.Bytes = 0 }, "want 1 to"},
		{"no bytes, though small is allowed", Raw, func(o *Options) { o.Bytes, o.AllowSmall = 0, true }, "want 1 to"},
		{"absurd bytes", Raw, func(o *Options) { o.Bytes = 1 << 60 }, "want 1 to"},
		{"no chunk", Raw, func(o *Options) { o.Chunk = 0 }, "a chunk of 0"},
		{"a chunk without its numbers", Raw, func(o *Options) { o.Chunk = 15 }, "want 16 to"},
		{"absurd chunk", Raw, func(o *Options) { o.Chunk = 1 << 30 }, "a chunk of"},
		{"no connections", Raw, func(o *Options) { o.Connections = 0 }, "0 connections"},
		{"too many connections", Raw, func(o *Options) { o.Connections = 257 }, "257 connections"},
		{"no streams", Raw, func(o *Options) { o.Streams = -1 }, "-1 streams"},
		{"absurd width", Raw, func(o *Options) { o.Width = -1 }, "a width of -1"},
		{"tiny window", Raw, func(o *Options) { o.Window = 1000 }, "a window of 1000"},
		{"tiny buffer", Raw, func(o *Options) { o.Buffer = 1 }, "a socket buffer of 1"},
		{"smallest packets", Raw, func(o *Options) { o.PacketSize = 1200 }, ""},
		{"too small packets", Raw, func(o *Options) { o.PacketSize = 1199 }, "QUIC needs 1200"},
		{"largest packets", Raw, func(o *Options) { o.PacketSize = 1452 }, ""},
		{"packets above the ceiling", Raw, func(o *Options) { o.PacketSize = 1453 }, "(quic-go v0 stock) ends at 1452"},
		{"pings", Relay, func(o *Options) { o.Latency = true }, ""},
		{"a thousand pings", Relay, func(o *Options) { o.Latency, o.Count = true, 1000 }, ""},
		{"fewer pings", Relay, func(o *Options) { o.Latency, o.Count = true, 999 }, "no 99th percentile"},
		{"fewer pings, allowed", Relay, func(o *Options) { o.Latency, o.Count, o.AllowSmall = true, 1, true }, ""},
		{"no pings", Relay, func(o *Options) { o.Latency, o.Count, o.AllowSmall = true, 0, true }, "a count of 0"},
		{"pings without their number", Relay, func(o *Options) { o.Latency, o.Payload = true, 15 }, "a payload of 15"},
		{"pings on many streams", Relay, func(o *Options) { o.Latency, o.Streams = true, 2 }, "one stream"},
		{"a few quiet requests", Raw, func(o *Options) { o.Interval, o.Count = 100*time.Millisecond, 3 }, ""},
		{"busy quiet requests", Raw, func(o *Options) { o.Interval = time.Microsecond }, "an interval of"},
		{"negative interval", Raw, func(o *Options) { o.Interval = -time.Second }, "an interval of"},
	} {
		o := DefaultOptions(c.kind)
		c.spoil(&o)
		err := o.validate(stockEngine)
		if c.says == "" {
			if err != nil {
				t.Errorf("%s %s: %v", c.kind, c.name, err)
			}
			continue
		}
		var bad *probe.InvalidMeasurement
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %s: %v, want an invalid measurement that says %q", c.kind, c.name, err, c.says)
		}
	}
	o := DefaultOptions(Raw)
	o.Bytes = 1000
	var bad *probe.InvalidMeasurement
	if _, err := Run(t.Context(), o, probe.Launcher{Program: "/nonexistent"}, nil); !errors.As(err, &bad) {
		t.Errorf("Run started something: %v", err)
	}
}

func TestFramesAreSharedOut(t *testing.T) {
	for _, c := range []struct {
		connections, streams, chunk int
		bytes, frames               int64
	}{
		{1, 1, 1000, 1000, 1}, {1, 1, 1000, 1001, 2}, {2, 3, 1000, 10_000, 10}, {4, 4, 1000, 1, 16}, {3, 1, 16, 1 << 20, 65536},
	} {
		o := Options{Connections: c.connections, Streams: c.streams, Chunk: c.chunk, Bytes: c.bytes}
		if o.frames() != c.frames || o.payload() != c.frames*int64(c.chunk) {
			t.Errorf("%+v: %d frames, %d bytes", c, o.frames(), o.payload())
		}
		var sum int64
		for i := range c.connections * c.streams {
			share := o.shareOf(i)
			if share < 1 || share > o.frames()/int64(c.connections*c.streams)+1 {
				t.Errorf("%+v: stream %d gets %d", c, i, share)
			}
			sum += share
		}
		if sum != c.frames {
			t.Errorf("%+v: shares add up to %d", c, sum)
		}
	}
}

func TestStockSetsEverything(t *testing.T) {
	o := DefaultOptions(Relay)
	o.Stock, o.Width, o.PacketSize = true, 1, 4096
	o = o.stocked()
	c := o.endpoint()
	if o.Width != 0 || c.InitialPacketSize != 1452 || !c.DisablePMTUD || c.Socket.GRO != udp.Off || c.Socket.GSO != udp.Auto {
		t.Errorf("width %d, endpoint %+v", o.Width, c)
	}
	o = DefaultOptions(Relay).stocked()
	if c := o.endpoint(); c.InitialPacketSize != 0 || c.DisablePMTUD || c.Socket.GRO != udp.Auto {
		t.Errorf("without --stock: %+v", c)
	}
}
