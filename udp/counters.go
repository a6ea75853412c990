package udp

import (
	"iter"
	"sync/atomic"
	"syscall"
)

// Counter identifies one counter of a socket.
type Counter uint8

// The counters of a socket; Doc explains each.
const (
	SentDatagrams Counter = iota
	SentBytes
	SendCalls
	SendWaits
	SentAggregates
	SentSegments
	SendRetries
	ResentDatagrams
	LostDatagrams
	LostBytes
	TooLargeDatagrams
	FailedDatagrams
	RefusedEMSGSIZE
	RefusedEINVAL
	RefusedEIO
	RefusedENOBUFS
	RefusedEPERM
	RefusedENETUNREACH
	RefusedEHOSTUNREACH
	RefusedECONNREFUSED
	RefusedEINTR
	RefusedOther
	PeerDowngrades
	SocketDowngrades
	SegmentLimitDowngrades
	Recoveries

	ReceivedDatagrams
	ReceivedBytes
	ReceiveCalls
	ReceiveEmptyCalls
	CoalescedReads
	CoalescedPieces
	DroppedTruncated
	DroppedControl
	DroppedStride
	DroppedOversize
	ReceiveErrors
	OverflowDrops

	numCounters
)

// counterTable declares every counter once: its name and what it counts.
var counterTable = [numCounters]struct{ name, doc string }{
	SentDatagrams:          {"sent_datagrams", "Datagrams that the kernel accepted for sending."},
	SentBytes:              {"sent_bytes", "Payload bytes of the datagrams that the kernel accepted."},
	SendCalls:              {"send_calls", "Send system calls, the refused ones included."},
	SendWaits:              {"send_waits", "Send calls that found the send buffer full and waited for room."},
	SentAggregates:         {"sent_aggregates", "Accepted messages that held two or more datagrams (UDP_SEGMENT)."},
	SentSegments:           {"sent_segments", "Datagrams that left inside such aggregates."},
	SendRetries:            {"send_retries", "Messages tried a second time because the refusal may have been an earlier packet's."},
	ResentDatagrams:        {"resent_datagrams", "Datagrams of a refused aggregate that were tried again in smaller messages."},
	LostDatagrams:          {"lost_datagrams", "Datagrams given up after a refusal and left to the sender's loss recovery."},
	LostBytes:              {"lost_bytes", "Payload bytes of those lost datagrams."},
	TooLargeDatagrams:      {"too_large_datagrams", "Datagrams reported to the caller as larger than the path takes (EMSGSIZE)."},
	FailedDatagrams:        {"failed_datagrams", "Datagrams left unsent because the call ended with an error, such as a closed socket."},
	RefusedEMSGSIZE:        {"refused_emsgsize", "Messages refused as too long for the kernel, the device or the route."},
	RefusedEINVAL:          {"refused_einval", "Messages refused as invalid: too many segments, a segment over an older kernel's MTU check, or a source address that is gone."},
	RefusedEIO:             {"refused_eio", "Messages refused because the device cannot compute checksums of segmented sends."},
	RefusedENOBUFS:         {"refused_enobufs", "Messages refused because a queue or the kernel's memory was full."},
	RefusedEPERM:           {"refused_eperm", "Messages refused by a firewall or by connection tracking."},
	RefusedENETUNREACH:     {"refused_enetunreach", "Messages refused for want of a route to the network."},
	RefusedEHOSTUNREACH:    {"refused_ehostunreach", "Messages refused because the host cannot be reached."},
	RefusedECONNREFUSED:    {"refused_econnrefused", "Messages refused because an earlier packet found no listener."},
	RefusedEINTR:           {"refused_eintr", "Messages refused because a signal interrupted the call."},
	RefusedOther:           {"refused_other", "Messages refused for any other reason."},
	PeerDowngrades:         {"peer_downgrades", "Times segmentation was limited or switched off for one destination."},
	SocketDowngrades:       {"socket_downgrades", "Times segmentation was switched off for all destinations of the socket."},
	SegmentLimitDowngrades: {"segment_limit_downgrades", "Times the number of segments in a message was lowered."},
	Recoveries:             {"recoveries", "Times segmentation was found to work again after a downgrade."},
	ReceivedDatagrams:      {"received_datagrams", "Datagrams handed to the caller."},
	ReceivedBytes:          {"received_bytes", "Payload bytes handed to the caller."},
	ReceiveCalls:           {"receive_calls", "Receive system calls, those that found nothing included."},
	ReceiveEmptyCalls:      {"receive_empty_calls", "Receive system calls that found nothing, after which the reader parked."},
	CoalescedReads:         {"coalesced_reads", "Messages received that held two or more datagrams (UDP_GRO)."},
	CoalescedPieces:        {"coalesced_pieces", "Datagrams that such messages were split into."},
	DroppedTruncated:       {"dropped_truncated", "Received messages dropped because the kernel had cut off data."},
	DroppedControl:         {"dropped_control", "Received messages dropped because their control data was cut off or malformed."},
	DroppedStride:          {"dropped_stride", "Received messages dropped because their segment size was nonsense, so that they could not be split."},
	DroppedOversize:        {"dropped_oversize", "Received datagrams dropped because they were larger than the caller's buffer."},
	ReceiveErrors:          {"receive_errors", "Errors that a receive call reported and that were passed over."},
	OverflowDrops:          {"overflow_drops", "Messages that the kernel dropped because the receive buffer was full; with coalescing each may have held many datagrams."},
}

// Name returns the name of the counter in snake_case.
func (c Counter) Name() string { return counterTable[c].name }

// Doc returns one sentence on what the counter counts.
func (c Counter) Doc() string { return counterTable[c].doc }

// String returns Name.
func (c Counter) String() string { return c.Name() }

// Counters yields every counter in the order of declaration.
func Counters() iter.Seq[Counter] {
	return func(yield func(Counter) bool) {
		for c := range numCounters {
			if !yield(c) {
				return
			}
		}
	}
}

// refusedCounter returns the counter of sends refused with errno.
func refusedCounter(errno syscall.Errno) Counter {
	switch errno {
	case syscall.EMSGSIZE:
		return RefusedEMSGSIZE
	case syscall.EINVAL:
		return RefusedEINVAL
	case syscall.EIO:
		return RefusedEIO
	case syscall.ENOBUFS, syscall.ENOMEM:
		return RefusedENOBUFS
	case syscall.EPERM:
		return RefusedEPERM
	case syscall.ENETUNREACH:
		return RefusedENETUNREACH
	case syscall.EHOSTUNREACH:
		return RefusedEHOSTUNREACH
	case syscall.ECONNREFUSED:
		return RefusedECONNREFUSED
	case syscall.EINTR:
		return RefusedEINTR
	}
	return RefusedOther
}

// Stats is a snapshot of a socket's counters, all of which only grow.
type Stats struct{ v [numCounters]uint64 }

// Get returns one counter.
func (s Stats) Get(c Counter) uint64 { return s.v[c] }

// All yields every counter with its value, in the order of declaration.
func (s Stats) All() iter.Seq2[Counter, uint64] {
	return func(yield func(Counter, uint64) bool) {
		for i, v := range s.v {
			if !yield(Counter(i), v) {
				return
			}
		}
	}
}

// Map returns the snapshot by counter name.
func (s Stats) Map() map[string]uint64 {
	m := make(map[string]uint64, numCounters)
	for c, v := range s.All() {
		m[c.Name()] = v
	}
	return m
}

// Sub returns what was counted since the earlier snapshot.
func (s Stats) Sub(earlier Stats) Stats {
	var d Stats
	for i := range d.v {
		d.v[i] = s.v[i] - earlier.v[i]
	}
	return d
}

// Add returns the sum of two snapshots, such as those of two sockets.
func (s Stats) Add(other Stats) Stats {
	var d Stats
	for i := range d.v {
		d.v[i] = s.v[i] + other.v[i]
	}
	return d
}

// Refusals returns how many messages the kernel refused, for any reason.
func (s Stats) Refusals() uint64 {
	var n uint64
	for c := RefusedEMSGSIZE; c <= RefusedOther; c++ {
		n += s.v[c]
	}
	return n
}

// counters are the live values. Send and receive side are written by different
// goroutines and lie on cache lines of their own.
type counters struct {
	sent [ReceivedDatagrams]atomic.Uint64
	_    [64]byte
	got  [numCounters - ReceivedDatagrams]atomic.Uint64
}

func (c *counters) add(id Counter, n int) {
	if n == 0 {
		return
	}
	if id < ReceivedDatagrams {
		c.sent[id].Add(uint64(n))
		return
	}
	c.got[id-ReceivedDatagrams].Add(uint64(n))
}

func (c *counters) snapshot() Stats {
	var s Stats
	for i := range c.sent {
		s.v[i] = c.sent[i].Load()
	}
	for i := range c.got {
		s.v[int(ReceivedDatagrams)+i] = c.got[i].Load()
	}
	return s
}
