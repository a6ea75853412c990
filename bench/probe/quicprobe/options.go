package quicprobe

import (
	"fmt"
	"time"

	"felix/bench/probe"
	"felix/platform"
	"felix/transport"
	"felix/udp"
)

// Kind is what is measured.
type Kind string

// The kinds of a probe.
const (
	Raw   Kind = "raw"   // one hop: sender to receiver
	Relay Kind = "relay" // two hops: publisher to relay to subscriber
)

const (
	// floorBytes is the least payload that gives a rate, whatever the buffers.
	floorBytes = 128 << 20
	// stockPacket is the largest packet of the published engine in bytes.
	stockPacket = 1452
	// headLen is the part of a frame's payload that numbers it, in bytes.
	headLen = 16
	// maxChunk bounds a frame's payload in bytes.
	maxChunk = 16 << 20
	// maxStreams and maxConnections bound what a run opens.
	maxStreams     = 1024 // per connection
	maxConnections = 256
	// minCount is the least number of pings that has a 99th percentile worth
	// the name: ten lie above it.
	minCount = 1000
	// maxPings bounds the memory and time of a latency run.
	maxPings = 100_000_000
	// maxWidth bounds GOMAXPROCS.
	maxWidth = 1024
)

// Options are the settings of one run.
type Options struct {
	Kind Kind `json:"kind"`

	// Connections of each hop, and Streams on each of them.
	Connections int `json:"connections"`
	Streams     int `json:"streams_per_connection"`
	// Bytes are the payload to move; it is rounded up to whole frames.
	Bytes int64 `json:"requested_bytes"`
	// Chunk is the payload of a frame in bytes.
	Chunk int `json:"chunk_bytes"`
	// PacketSize fixes the size of full packets in bytes of UDP payload;
	// 0: as the transport decides.
	PacketSize int `json:"requested_packet_size_bytes"`
	// The switches of the sockets.
	GSO      udp.Switch `json:"gso"`
	GRO      udp.Switch `json:"gro"`
	SendMMsg udp.Switch `json:"sendmmsg"`
	RecvMMsg udp.Switch `json:"recvmmsg"`
	ECN      udp.Switch `json:"ecn"`
	// Width is GOMAXPROCS of each process; 0: the default.
	Width int `json:"width"`
	// V6 uses IPv6.
	V6 bool `json:"v6"`
	// Window fixes the receive window of every connection, in bytes, and that of
	// every stream; 0: the defaults of the transport for the two ends.
	Window int64 `json:"connection_window_bytes"`
	// Buffer is the socket buffer to ask for in each direction, in bytes.
	Buffer int `json:"buffer_bytes"`
	// Stock is the published engine with packets of at most 1452 bytes, without
	// coalesced receives, at default width.
	Stock bool `json:"stock"`
	// AllowSmall lets a run go ahead that is too small to mean anything.
	AllowSmall bool `json:"allow_small"`

	// Latency pings through the relay, one at a time, instead of moving Bytes.
	Latency bool `json:"latency"`
	// Interval, if not 0, sends one request each interval over one hop instead.
	Interval time.Duration `json:"interval_ns"`
	// Payload of a ping or request in bytes, Count of them.
	Payload int `json:"ping_payload_bytes"`
	Count   int `json:"count"`
}

// DefaultOptions are those of the command without flags.
func DefaultOptions(k Kind) Options {
	return Options{
		Kind: k, Connections: 1, Streams: 1, Bytes: 512_000_000,
		Chunk: 256 << 10, Buffer: udp.DefaultBuffer,
		Payload: 1024, Count: 10_000,
	}
}

// pings reports whether single messages are timed, instead of a mass moved.
func (o Options) pings() bool { return o.Latency || o.Interval != 0 }

// stocked returns the options with what Stock implies.
func (o Options) stocked() Options {
	if o.Stock {
		o.PacketSize, o.GRO, o.Width = stockPacket, udp.Off, 0
	}
	return o
}

// frames is the number of frames to move: whole ones, at least one a stream.
func (o Options) frames() int64 {
	n := (o.Bytes + int64(o.Chunk) - 1) / int64(o.Chunk)
	return max(n, int64(o.Connections*o.Streams))
}

// payload is what is really moved, in bytes.
func (o Options) payload() int64 { return o.frames() * int64(o.Chunk) }

// shareOf is the number of frames of one stream, numbered over all connections.
func (o Options) shareOf(stream int) int64 {
	n := int64(o.Connections * o.Streams)
	share := o.frames() / n
	if int64(stream) < o.frames()%n {
		share++
	}
	return share
}

// inFlight is the most that the receive windows of a hop let be under way, once
// they have grown. The engine has no other send window.
func (o Options) inFlight() int64 {
	if o.Window != 0 {
		return int64(o.Connections) * o.Window
	}
	windows := transport.ListenerWindows
	if o.Kind == Relay {
		windows = transport.DialerWindows // of the subscriber, larger than the relay's
	}
	stream, conn := windows()
	return int64(o.Connections) * min(int64(conn.Max), int64(o.Streams)*int64(stream.Max))
}

// leastBytes is the least payload whose rate is not that of filling buffers.
func (o Options) leastBytes() int64 {
	return max(floorBytes, 2*max(o.inFlight(), int64(o.Buffer)))
}

// meaningful reports whether the run is large enough to mean something.
func (o Options) meaningful() bool {
	switch {
	case o.Interval > 0:
		return true
	case o.Latency:
		return o.Count >= minCount
	}
	return o.payload() >= o.leastBytes()
}

// validate returns a [*probe.InvalidMeasurement] that lists everything which
// would make the run meaningless. ceiling is the largest packet of the engine.
func (o Options) validate(engine transport.EngineInfo) error {
	var why []string
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			why = append(why, fmt.Sprintf(format, args...))
		}
	}
	bad(o.Connections < 1 || o.Connections > maxConnections, "%d connections: want 1 to %d", o.Connections, maxConnections)
	bad(o.Streams < 1 || o.Streams > maxStreams, "%d streams a connection: want 1 to %d", o.Streams, maxStreams)
	bad(o.Width < 0 || o.Width > maxWidth, "a width of %d: want 1 to %d, or 0 for the default", o.Width, maxWidth)
	bad(o.Window != 0 && (o.Window < 64<<10 || o.Window > 4<<30), "a window of %d bytes: want %d to %d", o.Window, 64<<10, int64(4)<<30)
	bad(o.Buffer < udp.MinBuffer || o.Buffer > 1<<30, "a socket buffer of %d bytes: want %d to %d", o.Buffer, udp.MinBuffer, 1<<30)
	if o.PacketSize != 0 {
		bad(o.PacketSize < transport.MinPacketSize, "a packet size of %d bytes: QUIC needs %d", o.PacketSize, transport.MinPacketSize)
		bad(o.PacketSize > engine.PacketCeiling, "a packet size of %d bytes: the engine of this program (%s) ends at %d",
			o.PacketSize, engine.Name, engine.PacketCeiling)
		if mtu, err := platform.LoopbackMTU(); err == nil {
			bad(o.PacketSize > platform.UDPPayload(mtu, o.V6), "a packet size of %d bytes: the loopback interface takes %d",
				o.PacketSize, platform.UDPPayload(mtu, o.V6))
		}
	}
	if o.pings() {
		o.validatePings(bad)
	} else {
		o.validateMass(bad, len(why) == 0)
	}
	return probe.Invalid(why...)
}

func (o Options) validateMass(bad func(bool, string, ...any), sane bool) {
	bad(o.Chunk < headLen || o.Chunk > maxChunk, "a chunk of %d bytes: want %d to %d", o.Chunk, headLen, maxChunk)
	bad(o.Bytes < 1 || o.Bytes > 1<<50, "%d bytes: want 1 to %d", o.Bytes, int64(1)<<50)
	if !sane || o.Chunk < headLen || o.Bytes < 1 || o.AllowSmall {
		return
	}
	bad(!o.meaningful(), "%d bytes measure how buffers fill: windows and socket buffers ask for at least %d, or --allow-small",
		o.payload(), o.leastBytes())
}

func (o Options) validatePings(bad func(bool, string, ...any)) {
	bad(o.Connections != 1 || o.Streams != 1, "pings use one connection and one stream")
	bad(o.Payload < headLen || o.Payload > maxChunk, "a payload of %d bytes: want %d to %d", o.Payload, headLen, maxChunk)
	bad(o.Count < 1 || o.Count > maxPings, "a count of %d: want 1 to %d", o.Count, maxPings)
	if o.Interval != 0 {
		bad(o.Interval < time.Millisecond || o.Interval > time.Minute, "an interval of %v: want 1ms to 1m", o.Interval)
		return
	}
	bad(o.Count >= 1 && !o.meaningful() && !o.AllowSmall, "%d pings have no 99th percentile: want at least %d, or --allow-small", o.Count, minCount)
}

// endpoint is the configuration of one end, without its TLS settings.
func (o Options) endpoint() transport.Config {
	w := transport.Window{Initial: uint64(o.Window), Max: uint64(o.Window)}
	return transport.Config{
		Socket: udp.Config{
			ReadBuffer: o.Buffer, WriteBuffer: o.Buffer,
			GSO: o.GSO, GRO: o.GRO, SendMMsg: o.SendMMsg, RecvMMsg: o.RecvMMsg, ECN: o.ECN,
		},
		StreamWindow: w, ConnWindow: w,
		InitialPacketSize: uint16(o.PacketSize),
		DisablePMTUD:      o.PacketSize != 0,
	}
}

// listenAddr is where the listening end opens its socket.
func (o Options) listenAddr() string {
	if o.V6 {
		return "[::1]:0"
	}
	return "127.0.0.1:0"
}
