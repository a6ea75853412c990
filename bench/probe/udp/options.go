package udpprobe

import (
	"fmt"
	"time"

	"felix/bench/probe"
	"felix/platform"
	"felix/udp"
)

const (
	// minSegment has room for the run's and the datagram's number, in bytes.
	minSegment = headerLen
	// maxAggregate bounds one write, in bytes.
	maxAggregate = 16 << 20
	// maxPerWrite bounds the datagrams of one write.
	maxPerWrite = 4096
	// minDuration and maxDuration bound a run. A shorter one measures how the
	// processes start.
	minDuration = 100 * time.Millisecond
	maxDuration = 10 * time.Minute
)

// Options are the settings of one run.
type Options struct {
	// Segment is the payload of a datagram in bytes.
	Segment int `json:"segment_bytes"`
	// Aggregate is the payload of one write in bytes, cut down to a multiple of
	// Segment; 0: as much as one segmented send takes.
	Aggregate int `json:"aggregate_bytes"`
	// GSO, GRO and MMsg switch segmented sends, coalesced receives, and several
	// messages a system call each way.
	GSO  udp.Switch `json:"gso"`
	GRO  udp.Switch `json:"gro"`
	MMsg udp.Switch `json:"mmsg"`
	// V6 uses IPv6.
	V6 bool `json:"v6"`
	// Duration is how long the sender sends.
	Duration time.Duration `json:"duration_ns"`
	// Buffer is the socket buffer to ask for in each direction in bytes; 0: the
	// default of package udp.
	Buffer int `json:"buffer_bytes"`
	// NoClamp plans sends without regard to the kernel's limits, to see that
	// what it refuses is sent again.
	NoClamp bool `json:"no_clamp"`
}

// DefaultOptions returns what the command uses without flags: datagrams of the
// size that any Ethernet path carries, in writes of just under 64 KiB, for 3 s.
func DefaultOptions() Options { return Options{Segment: 1452, Duration: 3 * time.Second} }

// maxPayload is the largest datagram of the family in bytes.
func (o Options) maxPayload() int {
	if o.V6 {
		return platform.MaxPayloadV6
	}
	return platform.MaxPayloadV4
}

// perWrite is the number of datagrams of one write.
func (o Options) perWrite() int {
	if o.Aggregate == 0 {
		return max(o.maxPayload()/o.Segment, 1)
	}
	return o.Aggregate / o.Segment
}

// validate returns an [*probe.InvalidMeasurement] that lists everything which
// would make the run meaningless.
func (o Options) validate() error {
	var why []string
	say := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	switch {
	case o.Segment < minSegment:
		say("a segment of %d bytes is too small, at least %d", o.Segment, minSegment)
	case o.Segment > o.maxPayload():
		say("a segment of %d bytes is larger than a datagram can be, %d", o.Segment, o.maxPayload())
	case o.Aggregate < 0 || o.Aggregate > maxAggregate:
		say("an aggregate of %d bytes is out of range, at most %d", o.Aggregate, maxAggregate)
	case o.Aggregate != 0 && o.Aggregate < o.Segment:
		say("an aggregate of %d bytes holds no segment of %d", o.Aggregate, o.Segment)
	case o.perWrite() > maxPerWrite:
		say("%d datagrams a write are too many, at most %d", o.perWrite(), maxPerWrite)
	}
	if o.Duration < minDuration || o.Duration > maxDuration {
		say("a duration of %v is out of range, %v to %v", o.Duration, minDuration, maxDuration)
	}
	if o.Buffer < 0 || o.Buffer > 1<<30 {
		say("a socket buffer of %d bytes is out of range, at most %d", o.Buffer, 1<<30)
	}
	return probe.Invalid(why...)
}

// socket is the configuration of the sockets.
func (o Options) socket() udp.Config {
	return udp.Config{
		ReadBuffer: o.Buffer, WriteBuffer: o.Buffer,
		GSO: o.GSO, GRO: o.GRO, SendMMsg: o.MMsg, RecvMMsg: o.MMsg,
		Hooks: udp.Hooks{NoClamp: o.NoClamp},
	}
}

// listen opens one of the two sockets on loopback.
func (o Options) listen() (*udp.Conn, error) {
	if o.V6 {
		return udp.Listen("udp6", "[::1]:0", o.socket())
	}
	return udp.Listen("udp4", "127.0.0.1:0", o.socket())
}

// charge is an upper estimate of the kernel memory that one waiting datagram
// takes, in bytes: its data rounded up to the allocator's sizes, and its
// bookkeeping.
func (o Options) charge() int { return 2*o.Segment + 1024 }

// window is how many datagrams may be in flight towards a receive buffer of the
// given granted size. Linux gives memory back to the buffer in steps of up to a
// quarter of its size, so a part stays free.
func (o Options) window(granted int) int {
	return max(granted*3/4/o.charge(), 1)
}
