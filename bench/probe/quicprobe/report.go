package quicprobe

import (
	"slices"
	"strings"

	"felix/bench/probe"
	"felix/platform"
	"felix/udp"
)

// Report is the outcome of a run. Wire bytes are UDP payload, MB are 10^6 bytes.
type Report struct {
	Probe Kind `json:"probe"`
	// Meaningful is false for a run that was allowed to be too small.
	Meaningful bool     `json:"meaningful"`
	Notes      []string `json:"notes,omitempty"`

	*Throughput // of a mass transfer
	*Latency    // of pings

	// Engine is that of all processes.
	Engine             string `json:"engine"`
	EngineTuned        bool   `json:"engine_tuned"`
	PacketCeilingBytes int    `json:"packet_ceiling_bytes"`
	// PacketSizeBytes is the size of full packets with data, the smallest of all
	// connections; 0 if the path MTU search decided it.
	PacketSizeBytes int `json:"packet_size_bytes"`
	// LoopbackGuarantee: full-sized packets from the start, without a search,
	// because the socket buffers hold enough of them.
	LoopbackGuarantee       bool   `json:"loopback_guarantee"`
	LoopbackGuaranteeReason string `json:"loopback_guarantee_reason"`
	ConnectUS               int64  `json:"connect_us"` // slowest handshake

	// Packets of the ends that send data, of all hops.
	PacketsSent uint64  `json:"packets_sent"`
	PacketsLost uint64  `json:"packets_lost"`
	LossPercent float64 `json:"loss_percent"`
	// DroppedInEngine are datagrams that the sockets took and no connection
	// did: the engine's receive queues were full.
	DroppedInEngine uint64 `json:"engine_dropped_datagrams"`
	// Refusals of the kernel to send, in messages: a datagram or a segmented
	// send each.
	Refused        uint64            `json:"udp_refused"`
	RefusedByErrno map[string]uint64 `json:"udp_refused_by_errno"`

	Hops      []Hop     `json:"hops"`
	Processes []Process `json:"processes"`
	// Kernel is what the host counted meanwhile, for all programs; null where
	// the system does not tell.
	Kernel   *platform.UDPCounters `json:"kernel_udp_delta"`
	Settings Options               `json:"settings"`
	Host     probe.Host            `json:"host"`
}

// Throughput is the result of a mass transfer, as the receiver saw it.
type Throughput struct {
	MBPerS         float64 `json:"mb_per_s"`
	WireMBPerS     float64 `json:"wire_mb_per_s"` // last hop, towards the receiver
	PayloadBytes   int64   `json:"payload_bytes"`
	Frames         int64   `json:"frames"`
	ElapsedUS      int64   `json:"elapsed_us"`
	LongestStallMS int64   `json:"longest_stall_ms"`
}

// Latency is the result of pings.
type Latency struct {
	Pings int64 `json:"pings"`
	// The times from the start of the write to the arrival of the whole ping at
	// the subscriber (or receiver) are at the top.
	Percentiles
	RoundTrip Percentiles `json:"round_trip"`
	// SlowestAnswerUS is the longest round trip.
	SlowestAnswerUS float64 `json:"slowest_answer_us"`
}

// Hop is the traffic between two processes.
type Hop struct {
	From    string  `json:"from"`
	To      string  `json:"to"`
	Forward Traffic `json:"forward"` // with the data
	Back    Traffic `json:"back"`
}

// Traffic is one direction of a hop, counted at the socket of the process that
// has no other traffic.
type Traffic struct {
	Datagrams        uint64  `json:"datagrams"`
	WireBytes        uint64  `json:"wire_bytes"`
	BytesPerDatagram float64 `json:"bytes_per_datagram"`
}

// Process is one of the processes.
type Process struct {
	Role        string `json:"role"`
	PID         int    `json:"pid"`
	Width       int    `json:"width"` // GOMAXPROCS
	UserUS      int64  `json:"cpu_user_us"`
	SystemUS    int64  `json:"cpu_system_us"`
	Voluntary   int64  `json:"voluntary_switches"`
	Involuntary int64  `json:"involuntary_switches"`
	// CPUPerGB is the CPU time for 10^9 bytes of payload, 0 with pings.
	CPUPerGB float64 `json:"cpu_s_per_gb"`

	SendCallsPerDatagram    float64 `json:"send_syscalls_per_datagram"`
	ReceiveCallsPerDatagram float64 `json:"receive_syscalls_per_datagram"`
	// GSORatio and GRORatio are the shares of datagrams sent and received in
	// aggregates.
	GSORatio float64 `json:"gso_ratio"`
	GRORatio float64 `json:"gro_ratio"`

	DroppedInEngine uint64 `json:"engine_dropped_datagrams"`

	LoopbackGuarantee bool              `json:"loopback_guarantee"`
	Connections       []Connection      `json:"connections"`
	Granted           udp.Buffers       `json:"granted"`
	Capabilities      udp.Capabilities  `json:"capabilities"`
	Counters          map[string]uint64 `json:"counters"`
}

// Connection is a process's end of a connection.
type Connection struct {
	Peer            string `json:"peer"`
	PacketSizeBytes int    `json:"packet_size_bytes"` // 0: searched for
	PacketsSent     uint64 `json:"packets_sent"`
	PacketsLost     uint64 `json:"packets_lost"`
	PacketsReceived uint64 `json:"packets_received"`
	BytesSent       uint64 `json:"bytes_sent"`
	BytesReceived   uint64 `json:"bytes_received"`
	SmoothedRTTUS   int64  `json:"smoothed_rtt_us"`
	MinRTTUS        int64  `json:"min_rtt_us"`
	CwndBytes       uint64 `json:"cwnd_bytes"`
	GSO             bool   `json:"gso"`
}

func newReport(o Options, members []*member, kernel *platform.UDPCounters) Report {
	build := members[0].ready.Build
	r := Report{
		Probe: o.Kind, Meaningful: o.meaningful(),
		Engine: build.Engine, PacketCeilingBytes: build.PacketCeilingBytes,
		EngineTuned: strings.HasSuffix(build.Engine, " tuned"),
		Hops:        hopsOf(members), Kernel: kernel, Settings: o, Host: probe.ThisHost(),
		RefusedByErrno: map[string]uint64{},
	}
	members = slices.SortedFunc(slices.Values(members), func(a, b *member) int {
		return slices.Index(downstream, a.role) - slices.Index(downstream, b.role)
	})
	for _, m := range members {
		r.add(o, m)
	}
	r.LoopbackGuarantee, r.LoopbackGuaranteeReason = r.guarantee(o)
	if r.PacketsSent > 0 {
		r.LossPercent = 100 * float64(r.PacketsLost) / float64(r.PacketsSent)
	}
	if o.pings() {
		r.Latency = latencyOf(members)
	} else {
		r.Throughput = r.throughputOf(members)
	}
	return r
}

// downstream are the roles in the order in which the data passes them.
var downstream = []string{roleSender, rolePublisher, roleRelay, roleReceiver, roleSubscriber}

// add takes in a process.
func (r *Report) add(o Options, m *member) {
	p := processOf(o, m)
	r.Processes = append(r.Processes, p)
	r.DroppedInEngine += p.DroppedInEngine
	r.ConnectUS = max(r.ConnectUS, m.ready.Dial.Microseconds())
	for _, c := range p.Connections {
		if !sendsData(m.role, c.Peer) {
			continue
		}
		if r.PacketsSent == 0 || c.PacketSizeBytes < r.PacketSizeBytes {
			r.PacketSizeBytes = c.PacketSizeBytes
		}
		r.PacketsSent += c.PacketsSent
		r.PacketsLost += c.PacketsLost
	}
	for name, n := range p.Counters {
		if errno, ok := strings.CutPrefix(name, "refused_"); ok && n > 0 {
			r.RefusedByErrno[errno] += n
			r.Refused += n
		}
	}
}

// sendsData reports whether a role sends the data to a peer, not the answers.
func sendsData(role, peer string) bool {
	return role == roleSender || role == rolePublisher || role == roleRelay && peer == roleSubscriber
}

// hopsOf counts each hop at the process that only takes part in that one.
func hopsOf(members []*member) []Hop {
	var hops []Hop
	for _, m := range members {
		c := m.side.Counters
		sent := traffic(c[udp.SentDatagrams.Name()], c[udp.SentBytes.Name()])
		got := traffic(c[udp.ReceivedDatagrams.Name()], c[udp.ReceivedBytes.Name()])
		switch m.role {
		case roleSender:
			hops = append(hops, Hop{From: roleSender, To: roleReceiver, Forward: sent, Back: got})
		case rolePublisher:
			hops = slices.Insert(hops, 0, Hop{From: rolePublisher, To: roleRelay, Forward: sent, Back: got})
		case roleSubscriber:
			hops = append(hops, Hop{From: roleRelay, To: roleSubscriber, Forward: got, Back: sent})
		}
	}
	return hops
}

func traffic(datagrams, bytes uint64) Traffic {
	return Traffic{Datagrams: datagrams, WireBytes: bytes, BytesPerDatagram: ratio(bytes, datagrams)}
}

func (r *Report) throughputOf(members []*member) *Throughput {
	var t Throughput
	for _, m := range members {
		if m.role != roleReceiver && m.role != roleSubscriber {
			continue
		}
		d := m.done
		t.PayloadBytes, t.Frames = d.Payload, d.Frames
		t.ElapsedUS, t.LongestStallMS = d.Elapsed.Microseconds(), d.Stall.Milliseconds()
		if s := d.Elapsed.Seconds(); s > 0 {
			t.MBPerS = float64(d.Payload) / 1e6 / s
			t.WireMBPerS = float64(r.Hops[len(r.Hops)-1].Forward.WireBytes) / 1e6 / s
		}
	}
	return &t
}

func latencyOf(members []*member) *Latency {
	for _, m := range members {
		if m.done.Delivery == nil || m.done.RoundTrip == nil {
			continue
		}
		return &Latency{
			Pings: m.done.Frames, Percentiles: *m.done.Delivery,
			RoundTrip: *m.done.RoundTrip, SlowestAnswerUS: m.done.RoundTrip.Max,
		}
	}
	return nil
}

// ratio is 0 for 0 of nothing.
func ratio(n, of uint64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}
