package session

import (
	"fmt"
	"time"

	"felix/broker"
	"felix/wire"
)

// Offsets says which events of a stream without a log carry their sequence
// number as an offset. It only concerns subscriptions whose control stream
// offered offsets (wire.FlagEventOffsets).
type Offsets uint8

const (
	// OffsetsReplay puts offsets on replayed events and not on live ones, as
	// the original broker does. A client knows how far its replay got.
	OffsetsReplay Offsets = iota
	// OffsetsAll puts offsets on live events too. A client sees every gap that
	// a full queue left and can resume from wherever it was cut off. Clients
	// that take an offset for a promise of durability may end a subscription
	// whose events they cannot keep up with.
	OffsetsAll
	// OffsetsNone puts offsets nowhere.
	OffsetsNone
)

var offsetsNames = [...]string{OffsetsReplay: "replay", OffsetsAll: "all", OffsetsNone: "none"}

// String returns replay, all or none.
func (o Offsets) String() string {
	if int(o) < len(offsetsNames) {
		return offsetsNames[o]
	}
	return fmt.Sprintf("offsets(%d)", uint8(o))
}

// ParseOffsets is the inverse of Offsets.String.
func ParseOffsets(s string) (Offsets, error) {
	for o, name := range offsetsNames {
		if s == name {
			return Offsets(o), nil
		}
	}
	return 0, fmt.Errorf("session: unknown offsets mode %q (want replay, all or none)", s)
}

// Config are the settings of a Server. In every field except the booleans and
// the two waits, zero means the value of [DefaultConfig], or what the field says.
type Config struct {
	// MaxFrameBytes is the largest frame payload taken or sent, in bytes.
	MaxFrameBytes int
	// MaxFrameBytesBeforeAuth is the same for a stream that has not
	// authenticated.
	MaxFrameBytesBeforeAuth int
	// AuthTimeout is how long a stream may take to the end of its auth message.
	AuthTimeout time.Duration
	// ConnAuthTimeout is how long a connection may take to the first auth message
	// that is accepted. Clients of the original keep connections without a stream
	// until they subscribe, and its own idle timeout ends those after 30 s; this
	// must not be shorter.
	ConnAuthTimeout time.Duration
	// MaxHandshakes is how many streams of one connection may be authenticating
	// at a time. Further ones are not read until one of them is done, in the time
	// they have.
	MaxHandshakes int
	// MaxStreamsBeforeAuth is how many streams of a connection are served as long
	// as none has authenticated. Further ones wait unread, so that a peer without
	// a token can make the broker hold little.
	MaxStreamsBeforeAuth int

	// FrameBytes and ConnFrameBytes bound the memory of frames of more than 16 KiB
	// that are being read and handled, in the process and in one connection. One
	// frame of a connection, and one of the process, may exceed the bound; other
	// streams with such a frame are not read until there is room. Zero means the
	// broker's Options.InflightBytes and ConnInflightBytes.
	FrameBytes, ConnFrameBytes int64
	// FrameStallTimeout is how long a client may take for the next 256 KiB, or the
	// rest, of a frame that is charged to them. The time in which the broker does
	// not read does not count. A quarter of it may be missing, for it is not begun
	// anew for each of many frames.
	FrameStallTimeout time.Duration

	// AckOnCommit makes an ack say that the batch has been handed to every
	// subscriber's queue, instead of that it has been accepted. It may take
	// the broker's Options.CommitWait; then it is the error "publish commit
	// timeout", which leaves the outcome open.
	AckOnCommit bool
	// AckedWait and UnackedWait say what a publish with and without ack does
	// when a queue or a byte budget is full. While one waits, its stream is not
	// read.
	AckedWait, UnackedWait broker.Wait

	// ReplyQueue bounds the replies of a control stream that are owed or not yet
	// written. While it is full the stream is not read.
	ReplyQueue int
	// ReplyQueueBytes is the same bound in bytes of cache values; a single
	// larger one is let in when nothing else waits.
	ReplyQueueBytes int
	// ConnReplyBytes bounds the replies of more than 16 KiB that all control
	// streams of a connection have waiting, in bytes. One stream may exceed it;
	// other streams of the connection that owe such a reply wait for room.
	ConnReplyBytes int64
	// ReplyStallTimeout is how long a client may take to accept the next piece of
	// its last replies, once its stream is no longer read. Then the stream is
	// reset. Before that there is no limit: a client that does not take its
	// replies is not read from.
	ReplyStallTimeout time.Duration
	// LingerTimeout and LingerBytes bound how long the rest of an oversized frame
	// is read and thrown away, so that a client that is still writing gets to
	// read why it was refused. LingerTimeout is also how long a client may take to
	// FIN a stream after the request that ends it.
	LingerTimeout time.Duration
	LingerBytes   int64

	// OpenTimeout is how long a subscription waits for the client to allow one
	// more stream.
	OpenTimeout time.Duration
	// EventBatchMaxDelay is how long a single event may wait for others to share
	// a frame with, up to the broker's Options.EventBatchMaxEvents and
	// EventBatchMaxBytes. Zero, the default, merges only what is queued already.
	EventBatchMaxDelay time.Duration
	// MaxBytesPerWrite bounds the small frames that are gathered for one write to
	// an event stream, and the frames made of single events. Frames of a quarter
	// of it and more are written as they are, without a copy.
	MaxBytesPerWrite int
	// Offsets says which events carry offsets.
	Offsets Offsets

	// DrainGrace is how long Drain goes on serving the streams that are open. 0:
	// a fifth of the time Drain is given, at least 1 s; 5 s if it is given no
	// limit. The queues of subscriptions may take all the time that is left, but
	// one whose client takes nothing for half of the grace, at least 2 s, is given
	// up.
	DrainGrace time.Duration
	// DrainIdle is how long a stream must be silent during a drain to count as
	// finished.
	DrainIdle time.Duration
	// CloseLinger is the time between the last write of a drain and the close of
	// the connection, which would discard what is still on its way. EventLinger
	// counts instead where events were written during the drain: the close also
	// discards what a client has received and not read yet. It is at least
	// CloseLinger.
	CloseLinger, EventLinger time.Duration
}

// DefaultConfig returns the settings that zero fields stand for, with publishes
// that wait for room: those with ack for as long as the broker's QueueWait,
// those without for ever, since they cannot be told that they were dropped.
func DefaultConfig() Config {
	return Config{
		MaxFrameBytes:           wire.DefaultMaxFrameBytes,
		MaxFrameBytesBeforeAuth: 64 << 10,
		AuthTimeout:             10 * time.Second,
		ConnAuthTimeout:         time.Minute,
		MaxHandshakes:           64,
		MaxStreamsBeforeAuth:    16,
		FrameStallTimeout:       30 * time.Second,
		AckedWait:               broker.WaitBounded,
		UnackedWait:             broker.WaitForever,
		ReplyQueue:              2048,
		ReplyQueueBytes:         1 << 20,
		ConnReplyBytes:          64 << 20,
		ReplyStallTimeout:       10 * time.Second,
		LingerTimeout:           5 * time.Second,
		LingerBytes:             64 << 20,
		OpenTimeout:             10 * time.Second,
		MaxBytesPerWrite:        64 << 10,
		DrainIdle:               250 * time.Millisecond,
		CloseLinger:             100 * time.Millisecond,
		EventLinger:             time.Second,
	}
}

func (c Config) withDefaults() Config {
	d := DefaultConfig()
	orDefault(&c.MaxFrameBytes, d.MaxFrameBytes)
	orDefault(&c.MaxFrameBytesBeforeAuth, d.MaxFrameBytesBeforeAuth)
	c.MaxFrameBytesBeforeAuth = min(c.MaxFrameBytesBeforeAuth, c.MaxFrameBytes)
	orDefault(&c.AuthTimeout, d.AuthTimeout)
	orDefault(&c.ConnAuthTimeout, d.ConnAuthTimeout)
	orDefault(&c.MaxHandshakes, d.MaxHandshakes)
	orDefault(&c.MaxStreamsBeforeAuth, d.MaxStreamsBeforeAuth)
	orDefault(&c.FrameStallTimeout, d.FrameStallTimeout)
	orDefault(&c.ConnReplyBytes, d.ConnReplyBytes)
	orDefault(&c.ReplyQueue, d.ReplyQueue)
	orDefault(&c.ReplyQueueBytes, d.ReplyQueueBytes)
	orDefault(&c.ReplyStallTimeout, d.ReplyStallTimeout)
	orDefault(&c.LingerTimeout, d.LingerTimeout)
	orDefault(&c.LingerBytes, d.LingerBytes)
	orDefault(&c.OpenTimeout, d.OpenTimeout)
	orDefault(&c.MaxBytesPerWrite, d.MaxBytesPerWrite)
	orDefault(&c.DrainIdle, d.DrainIdle)
	orDefault(&c.CloseLinger, d.CloseLinger)
	orDefault(&c.EventLinger, d.EventLinger)
	c.EventLinger = max(c.EventLinger, c.CloseLinger)
	return c
}

// orDefault replaces a value that was not set.
func orDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}
