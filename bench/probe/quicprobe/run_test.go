package quicprobe

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"felix/bench/probe"
	"felix/transport"
	"felix/udp"
)

// rolesOf are the processes of a kind, in the order of the report.
var rolesOf = map[Kind][]string{
	Raw:   {roleSender, roleReceiver},
	Relay: {rolePublisher, roleRelay, roleSubscriber},
}

func TestEveryByteArrives(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"defaults":          func(*Options) {},
		"IPv6":              func(o *Options) { o.V6 = true },
		"offloads off":      func(o *Options) { o.GSO, o.GRO = udp.Off, udp.Off },
		"smallest packets":  func(o *Options) { o.PacketSize = 1200 },
		"largest packets":   func(o *Options) { o.PacketSize = transport.Engine().PacketCeiling },
		"many streams":      func(o *Options) { o.Connections, o.Streams = 3, 5 },
		"tiny frames":       func(o *Options) { o.Chunk, o.Bytes = headLen, 1<<20 },
		"one huge frame":    func(o *Options) { o.Chunk = 4 << 20 },
		"frames and window": func(o *Options) { o.Chunk, o.Window, o.Streams = 1<<20, 64<<10, 2 },
		"width 1":           func(o *Options) { o.Width = 1 },
		"stock":             func(o *Options) { o.Stock = true },
	} {
		for _, kind := range []Kind{Raw, Relay} {
			t.Run(string(kind)+" "+name, func(t *testing.T) {
				o := small(kind)
				change(&o)
				r, err := Run(t.Context(), o, self(kind), nil)
				if err != nil {
					t.Fatal(err)
				}
				checkReport(t, o.stocked(), r)
			})
		}
	}
}

// checkReport wants what holds for every mass transfer.
func checkReport(t *testing.T, o Options, r Report) {
	t.Helper()
	if r.Throughput == nil || r.Latency != nil || r.Meaningful {
		t.Fatalf("not the report of a small transfer: %+v", r)
	}
	if r.PayloadBytes != o.payload() || r.Frames != o.frames() || r.MBPerS <= 0 || r.WireMBPerS <= r.MBPerS/2 || r.ElapsedUS <= 0 {
		t.Errorf("result %+v, want %d bytes in %d frames", *r.Throughput, o.payload(), o.frames())
	}
	if r.Refused != 0 {
		t.Errorf("refused %v", r.RefusedByErrno)
	}
	if e := transport.Engine(); r.Engine != e.Name || r.EngineTuned != e.Tuned || r.PacketCeilingBytes != e.PacketCeiling {
		t.Errorf("engine %q", r.Engine)
	}
	if r.PacketsSent == 0 || r.ConnectUS <= 0 || r.Host.CPUs < 1 {
		t.Errorf("packets %d, connected in %d us, host %+v", r.PacketsSent, r.ConnectUS, r.Host)
	}
	var roles []string
	for _, p := range r.Processes {
		roles = append(roles, p.Role)
		checkProcess(t, o, p)
	}
	if !slices.Equal(roles, rolesOf[o.Kind]) {
		t.Errorf("processes %v", roles)
	}
	if len(r.Hops) != len(roles)-1 {
		t.Fatalf("hops %+v", r.Hops)
	}
	for i, h := range r.Hops {
		if h.From != roles[i] || h.To != roles[i+1] {
			t.Errorf("hop %d is from %s to %s", i, h.From, h.To)
		}
		if h.Forward.WireBytes < uint64(o.payload()) || h.Back.Datagrams == 0 || h.Back.WireBytes > h.Forward.WireBytes {
			t.Errorf("hop %d carried %+v", i, h)
		}
		if size := float64(r.PacketSizeBytes); size > 0 && (h.Forward.BytesPerDatagram > size || h.Forward.BytesPerDatagram < 300) {
			t.Errorf("hop %d has %v bytes a datagram, packets have %v", i, h.Forward.BytesPerDatagram, size)
		}
	}
	if o.PacketSize != 0 && (r.PacketSizeBytes != o.PacketSize || r.LoopbackGuarantee) {
		t.Errorf("packet size %d, guarantee %v (%s)", r.PacketSizeBytes, r.LoopbackGuarantee, r.LoopbackGuaranteeReason)
	}
}

func checkProcess(t *testing.T, o Options, p Process) {
	t.Helper()
	conns := o.Connections
	if p.Role == roleRelay {
		conns *= 2
	}
	if p.PID == 0 || p.PID == os.Getpid() || p.UserUS+p.SystemUS <= 0 || p.CPUPerGB <= 0 || p.Voluntary <= 0 || len(p.Connections) != conns {
		t.Errorf("%s: %+v", p.Role, p)
	}
	if o.Width != 0 && p.Width != o.Width {
		t.Errorf("%s: width %d", p.Role, p.Width)
	}
	if p.SendCallsPerDatagram <= 0 || p.ReceiveCallsPerDatagram <= 0 {
		t.Errorf("%s: %v and %v calls a datagram", p.Role, p.SendCallsPerDatagram, p.ReceiveCallsPerDatagram)
	}
	if o.GSO == udp.Off && (p.GSORatio != 0 || p.Capabilities.GSO.Active) || o.GRO == udp.Off && (p.GRORatio != 0 || p.Capabilities.GRO.Active) {
		t.Errorf("%s: offloads that are off were used: gso %v, gro %v", p.Role, p.GSORatio, p.GRORatio)
	}
	for _, c := range p.Connections {
		if c.PacketsSent == 0 || c.PacketsReceived == 0 || c.SmoothedRTTUS <= 0 || c.CwndBytes == 0 {
			t.Errorf("%s: connection %+v", p.Role, c)
		}
	}
}

func TestPings(t *testing.T) {
	for _, size := range []int{headLen, 4096, 100_000} {
		o := DefaultOptions(Relay)
		o.Latency, o.Payload, o.Count, o.AllowSmall = true, size, 200, true
		r, err := Run(t.Context(), o, self(Relay), nil)
		if err != nil {
			t.Fatal(err)
		}
		checkLatency(t, r, 200)
		if r.Meaningful {
			t.Error("200 pings pass for enough")
		}
	}
}

func checkLatency(t *testing.T, r Report, pings int64) {
	t.Helper()
	x := r.Latency
	if x == nil || r.Throughput != nil || x.Pings != pings {
		t.Fatalf("not the report of %d pings: %+v", pings, r)
	}
	for _, p := range []Percentiles{x.Percentiles, x.RoundTrip} {
		if p.P50 <= 0 || p.P99 < p.P50 || p.P999 < p.P99 || p.Max < p.P999 {
			t.Errorf("percentiles out of order: %+v", p)
		}
	}
	if x.RoundTrip.P50 < x.P50 || x.RoundTrip.Max < x.Max || x.SlowestAnswerUS != x.RoundTrip.Max {
		t.Errorf("delivery %+v, round trip %+v, slowest answer %v", x.Percentiles, x.RoundTrip, x.SlowestAnswerUS)
	}
	if r.Refused != 0 || r.PacketsSent == 0 {
		t.Errorf("refused %v, sent %d packets", r.RefusedByErrno, r.PacketsSent)
	}
}

// TestQuietConnections: a request now and then is answered soon at every packet
// size. A connection that discovers an impossible packet size, or whose window
// is smaller than a packet, lets it wait for loss timers instead.
func TestQuietConnections(t *testing.T) {
	sizes := []int{0, transport.MinPacketSize, stockPacket}
	if c := transport.Engine().PacketCeiling; c > stockPacket {
		sizes = append(sizes, 4096, c)
	}
	for _, size := range sizes {
		o := DefaultOptions(Raw)
		o.Interval, o.Count, o.PacketSize, o.Payload = 20*time.Millisecond, 15, size, 3000
		start := time.Now()
		r, err := Run(t.Context(), o, self(Raw), nil)
		if err != nil {
			t.Fatal(err)
		}
		checkLatency(t, r, 15)
		if took := time.Since(start); took < 14*o.Interval {
			t.Errorf("size %d: 15 requests every %v took %v", size, o.Interval, took)
		}
		if r.SlowestAnswerUS > 1e6 {
			t.Errorf("size %d: the slowest answer took %v us", size, r.SlowestAnswerUS)
		}
		if !r.Meaningful {
			t.Error("quiet requests pass for too few")
		}
	}
}

// TestGuaranteeFollowsTheBuffers: what the report says is what the transport did.
func TestGuaranteeFollowsTheBuffers(t *testing.T) {
	for _, buffer := range []int{udp.MinBuffer, 8 << 20} {
		o := small(Raw)
		o.Buffer = buffer
		r, err := Run(t.Context(), o, self(Raw), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := true
		for _, p := range r.Processes {
			want = want && smaller(p.Granted) >= guaranteePackets*transport.Engine().PacketCeiling
		}
		if r.LoopbackGuarantee != want {
			t.Errorf("buffer %d: guarantee %v (%s), want %v", buffer, r.LoopbackGuarantee, r.LoopbackGuaranteeReason, want)
		}
		said := !strings.Contains(r.LoopbackGuaranteeReason, "do not fit")
		if said != want {
			t.Errorf("buffer %d: %v because %s", buffer, r.LoopbackGuarantee, r.LoopbackGuaranteeReason)
		}
		if fixed := r.PacketSizeBytes != 0; fixed != want {
			t.Errorf("buffer %d: guarantee %v and packets of %d", buffer, want, r.PacketSizeBytes)
		}
	}
}

func TestCommandPrintsOneObject(t *testing.T) {
	for _, args := range [][]string{
		{"raw", "--bytes", "1000000", "--allow-small", "--json", "-4", "--width", "2"},
		{"relay", "--bytes", "1000000", "--allow-small", "--json", "-6", "--gso", "off"},
	} {
		out, err := execute(t, args...)
		if err != nil {
			t.Fatal(err)
		}
		var r Report
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		if string(r.Probe) != args[0] || r.Meaningful || r.Throughput == nil || r.PayloadBytes != 4*262144 {
			t.Errorf("%v: %s", args, out)
		}
		if !strings.Contains(out, `"meaningful": false`) {
			t.Errorf("%v does not say that it means nothing: %s", args, out)
		}
	}
	text, err := execute(t, "raw", "--bytes", "1000000", "--allow-small", "--streams", "4")
	if err != nil || !strings.HasPrefix(text, "buffer-fill rate, not throughput\n") || !strings.Contains(text, "sender to receiver") {
		t.Errorf("table: %v\n%s", err, text)
	}
	text, err = execute(t, "relay", "--latency", "--count", "10", "--allow-small", "--payload", "16")
	if err != nil || !strings.HasPrefix(text, "too few pings") || !strings.Contains(text, "10 of 16 B, one at a time") {
		t.Errorf("table: %v\n%s", err, text)
	}
	text, err = execute(t, "raw", "--interval", "1ms", "--count", "3")
	if err != nil || !strings.HasPrefix(text, "delivery") || !strings.Contains(text, "one every 1ms") {
		t.Errorf("table: %v\n%s", err, text)
	}
}

func TestCommandRefuses(t *testing.T) {
	var bad *probe.InvalidMeasurement
	for _, args := range [][]string{
		{"raw", "--bytes", "100000000"}, {"relay", "--streams", "0"}, {"raw", "--packet-size", "65535"}, {"relay", "--latency", "--count", "10"},
	} {
		if out, err := execute(t, args...); !errors.As(err, &bad) || out != "" {
			t.Errorf("%v: %v, printed %q", args, err, out)
		}
	}
	for _, args := range [][]string{
		{"raw", "-4", "-6"}, {"raw", "--gso", "sometimes"}, {"relay", "more"}, {"raw", "--stock", "--packet-size", "1200"},
		{"raw", "--stock", "--width", "1"}, {"raw", "--stock", "--gro", "on"}, {"raw", "--latency"}, {"relay", "--interval", "1s"},
		{"raw", "--count", "3"}, {"relay", "--payload", "16"}, {"relay", "--latency", "--chunk", "100"}, {"raw", "--interval", "1s", "--bytes", "1"},
	} {
		if out, err := execute(t, args...); err == nil || errors.As(err, &bad) || out != "" {
			t.Errorf("%v: %v, printed %q, want a usage error", args, err, out)
		}
	}
}

func TestEnvironmentAppliesUnlessAFlagIsGiven(t *testing.T) {
	settings := func(args ...string) Options {
		t.Helper()
		out, err := execute(t, append([]string{"raw", "--bytes", "1000000", "--allow-small", "--json"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		var r Report
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		for _, p := range r.Processes {
			if p.Width != r.Settings.Width {
				t.Errorf("%v: width %d, set %d", args, p.Width, r.Settings.Width)
			}
			if p.Capabilities.RecvMMsg.Active {
				t.Errorf("%v: FELIX_UDP_RECVMMSG=off had no effect", args)
			}
		}
		return r.Settings
	}
	t.Setenv("FELIX_UDP_GRO", "off")
	t.Setenv("FELIX_UDP_RECVMMSG", "off")
	t.Setenv("FELIX_WORKER_THREADS", "3")
	if o := settings(); o.GRO != udp.Off || o.Width != 3 || o.GSO != udp.Auto {
		t.Errorf("settings %+v", o)
	}
	if o := settings("--gro", "auto", "--width", "4"); o.GRO != udp.Auto || o.Width != 4 {
		t.Errorf("settings %+v", o)
	}
	for name, value := range map[string]string{"FELIX_UDP_GSO": "perhaps", "FELIX_WORKER_THREADS": "many"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			if _, err := execute(t, "raw"); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("a bad variable: %v", err)
			}
		})
	}
}
