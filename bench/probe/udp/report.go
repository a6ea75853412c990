package udpprobe

import (
	"fmt"
	"strings"

	"felix/bench/probe"
	"felix/platform"
	"felix/udp"
)

// Names of the socket counters that the report reads.
var (
	sentDatagrams = udp.SentDatagrams.Name()
	sendCalls     = udp.SendCalls.Name()
	receiveCalls  = udp.ReceiveCalls.Name()
	overflowDrops = udp.OverflowDrops.Name()
)

// Report is the outcome of a run. MB are 10^6 bytes of datagram payload.
type Report struct {
	Valid          bool     `json:"valid"`
	InvalidReasons []string `json:"invalid_reasons,omitempty"`

	Settings Settings `json:"settings"`

	// MBPerS is what the receiver got between its first and last look at the
	// clock while data came.
	MBPerS    float64 `json:"mb_per_s"`
	ElapsedUS int64   `json:"elapsed_us"`

	// Offered datagrams were handed to the sending socket, Sent ones accepted
	// by the kernel, Received ones arrived (each counted once).
	Offered  uint64 `json:"offered_datagrams"`
	Sent     uint64 `json:"sent_datagrams"`
	Received uint64 `json:"received_datagrams"`
	// Lost were sent and did not arrive; Unaccounted are those of them, and of
	// the offered ones not sent, that no counter explains.
	Lost        uint64 `json:"lost_datagrams"`
	Unaccounted uint64 `json:"unaccounted_datagrams"`
	Duplicates  uint64 `json:"duplicate_datagrams"`
	Reordered   uint64 `json:"reordered_datagrams"`
	Corrupt     uint64 `json:"corrupt_datagrams"`
	Foreign     uint64 `json:"foreign_datagrams"`

	// Refused messages, each one datagram or a whole segmented send, by errno.
	// Whether their datagrams left later shows in Sent.
	Refused        uint64            `json:"refused"`
	RefusedByErrno map[string]uint64 `json:"refused_by_errno"`

	SendCallsPerDatagram    float64 `json:"send_syscalls_per_datagram"`
	ReceiveCallsPerDatagram float64 `json:"receive_syscalls_per_datagram"`

	// SendEngine and ReceiveEngine name the system calls and options in use.
	SendEngine    string `json:"send_engine"`
	ReceiveEngine string `json:"receive_engine"`
	// WindowWaits are the times the sender had to wait for the receiver,
	// WindowStalls those when it heard nothing and gave up what was in flight.
	WindowWaits  uint64 `json:"window_waits"`
	WindowStalls uint64 `json:"window_stalls"`

	Sender   Process    `json:"sender"`
	Receiver Process    `json:"receiver"`
	Kernel   Kernel     `json:"kernel"`
	Link     Link       `json:"link"`
	Host     probe.Host `json:"host"`
}

// Settings are the options in force.
type Settings struct {
	SegmentBytes      int        `json:"segment_bytes"`
	AggregateBytes    int        `json:"aggregate_bytes"`
	DatagramsPerWrite int        `json:"datagrams_per_write"`
	WindowDatagrams   int        `json:"window_datagrams"`
	Family            string     `json:"family"`
	GSO               udp.Switch `json:"gso"`
	GRO               udp.Switch `json:"gro"`
	MMsg              udp.Switch `json:"mmsg"`
	Clamp             bool       `json:"clamp"`
	DurationMS        int64      `json:"duration_ms"`
}

// Process is one of the two processes.
type Process struct {
	Granted      udp.Buffers       `json:"granted"`
	Capabilities udp.Capabilities  `json:"capabilities"`
	UserUS       int64             `json:"cpu_user_us"`
	SystemUS     int64             `json:"cpu_system_us"`
	Voluntary    int64             `json:"voluntary_switches"`
	Involuntary  int64             `json:"involuntary_switches"`
	Counters     map[string]uint64 `json:"counters"`
}

// Kernel holds the host's counters: sums over all programs. Null where the
// system does not tell.
type Kernel struct {
	Before       *platform.UDPCounters  `json:"udp_before"`
	After        *platform.UDPCounters  `json:"udp_after"`
	Delta        *platform.UDPCounters  `json:"udp_delta"`
	SoftnetDelta *platform.SoftnetStats `json:"softnet_delta"`
}

// Link is what the datagrams went over.
type Link struct {
	Interface string            `json:"interface"`
	MTUBytes  int               `json:"mtu_bytes"`
	Offloads  map[string]string `json:"offloads"`
}

func newReport(o Options, s senderResult, r receiverResult, before, after counters) Report {
	x := Report{
		Settings:  settingsOf(o, r),
		ElapsedUS: r.Elapsed.Microseconds(),
		Offered:   s.Offered, Sent: s.Stats[sentDatagrams], Received: r.Received,
		Duplicates: r.Duplicates, Reordered: r.Reordered, Corrupt: r.Corrupt, Foreign: r.Foreign,
		RefusedByErrno: refusals(s.Stats),
		SendEngine:     sendEngine(s.Capabilities),
		ReceiveEngine:  receiveEngine(r.Capabilities),
		WindowWaits:    s.Waits, WindowStalls: s.Stalls,
		Sender: processOf(s.side), Receiver: processOf(r.side),
		Kernel: kernelOf(o, before, after), Link: linkOf(), Host: probe.ThisHost(),
	}
	if r.Elapsed > 0 {
		x.MBPerS = float64(r.Timed) * float64(o.Segment) / 1e6 / r.Elapsed.Seconds()
	}
	for _, n := range x.RefusedByErrno {
		x.Refused += n
	}
	if x.Sent > x.Received {
		x.Lost = x.Sent - x.Received
	}
	x.SendCallsPerDatagram = perDatagram(s.Stats[sendCalls], x.Sent)
	x.ReceiveCallsPerDatagram = perDatagram(r.Stats[receiveCalls], x.Received)
	x.Unaccounted = x.unaccounted(s.Stats, r.Stats)
	x.InvalidReasons = x.invalid(o, r.Granted.Read.Granted)
	x.Valid = len(x.InvalidReasons) == 0
	return x
}

func perDatagram(calls, datagrams uint64) float64 {
	if datagrams == 0 {
		return 0
	}
	return float64(calls) / float64(datagrams)
}

// refusals picks the counters refused_<errno> that are not zero.
func refusals(stats map[string]uint64) map[string]uint64 {
	out := map[string]uint64{}
	for name, n := range stats {
		if errno, ok := strings.CutPrefix(name, "refused_"); ok && n > 0 {
			out[errno] = n
		}
	}
	return out
}

// unaccounted compares what is missing with what the counters explain. The
// kernel counts a dropped message once, however many datagrams were coalesced
// in it, so an explanation covers up to that many.
func (x *Report) unaccounted(sender, receiver map[string]uint64) uint64 {
	unsent := sender[udp.LostDatagrams.Name()] + sender[udp.TooLargeDatagrams.Name()] + sender[udp.FailedDatagrams.Name()]
	missing := excess(x.Offered, x.Sent+unsent)

	drops := receiver[overflowDrops]
	for _, c := range []udp.Counter{udp.DroppedTruncated, udp.DroppedControl, udp.DroppedStride} {
		drops += receiver[c.Name()]
	}
	if d := x.Kernel.Delta; d != nil {
		drops += excess(d.RcvbufErrors, receiver[overflowDrops]) + d.MemErrors + d.SndbufErrors + d.InCsumErrors
	}
	if d := x.Kernel.SoftnetDelta; d != nil {
		drops += d.Dropped
	}
	explained := drops*uint64(x.perMessage()) + x.Corrupt + receiver[udp.DroppedOversize.Name()]
	return missing + excess(x.Lost, explained)
}

// perMessage is the most datagrams that one message in the kernel may hold.
func (x *Report) perMessage() int {
	if !x.Sender.Capabilities.GSO.Active {
		return 1
	}
	return max(min(x.Sender.Capabilities.MaxSegments, platform.MaxPayloadV6/x.Settings.SegmentBytes), 1)
}

func excess(a, b uint64) uint64 {
	if a < b {
		return 0
	}
	return a - b
}

// invalid lists what keeps the figures from meaning anything.
func (x *Report) invalid(o Options, granted int) []string {
	var why []string
	if x.Unaccounted > 0 {
		why = append(why, fmt.Sprintf("%d datagrams are missing and no counter explains them", x.Unaccounted))
	}
	if x.ElapsedUS <= 0 {
		why = append(why, fmt.Sprintf("fewer than %d datagrams arrived", 2*stampEvery))
	}
	if need := uint64(2 * granted / o.charge()); x.Received < need {
		why = append(why, fmt.Sprintf("%d datagrams arrived, and the receive buffer alone holds half of %d: run longer", x.Received, need))
	}
	return why
}
