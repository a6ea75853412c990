package quicprobe

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"felix/platform"
	"felix/transport"
	"felix/udp"
)

var update = flag.Bool("update", false, "write the files in testdata anew")

// crewOf is what a relay run of 1 GB in 2 s leaves.
func crewOf(o Options) []*member {
	build := ready{}
	build.Build.Engine, build.Build.PacketCeilingBytes = "quic-go v0 stock", 1452
	counters := func(kv ...any) map[string]uint64 {
		m := map[string]uint64{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i].(udp.Counter).Name()] = uint64(kv[i+1].(int))
		}
		return m
	}
	granted := udp.Buffers{Read: udp.Grant{Granted: 8 << 20}, Write: udp.Grant{Granted: 4 << 20}}
	conn := func(peer string, sent, lost, received uint64) connSide {
		return connSide{Peer: peer, Stats: transport.ConnStats{
			PacketsSent: sent, PacketsLost: lost, PacketsReceived: received, PacketSize: 1452, SmoothedRTT: 500 * time.Microsecond,
		}}
	}
	usage := platform.Usage{User: 1500 * time.Millisecond, System: 500 * time.Millisecond, Voluntary: 10, Involuntary: 20}
	publisher := &member{role: rolePublisher, ready: &build, done: &done{}, side: &side{
		Width: 2, Usage: usage, Granted: granted, Conns: []connSide{conn(roleRelay, 700_000, 70, 1000)},
		Counters: counters(udp.SentDatagrams, 700_000, udp.SentBytes, 1_015_000_000, udp.SendCalls, 70_000, udp.SentSegments, 350_000,
			udp.ReceivedDatagrams, 1000, udp.ReceivedBytes, 40_000, udp.ReceiveCalls, 500, udp.RefusedEMSGSIZE, 3),
	}}
	relay := &member{role: roleRelay, ready: &build, done: &done{}, side: &side{
		Width: 2, Usage: usage, Granted: granted, Conns: []connSide{conn(rolePublisher, 1000, 500, 699_900), conn(roleSubscriber, 700_000, 0, 2000)},
		Counters: counters(udp.SentDatagrams, 701_000, udp.ReceivedDatagrams, 702_000, udp.CoalescedPieces, 351_000, udp.RefusedEMSGSIZE, 1, udp.RefusedENOBUFS, 2),
	}}
	subscriber := &member{role: roleSubscriber, ready: &build,
		done: &done{Payload: o.payload(), Frames: o.frames(), Elapsed: 2 * time.Second, Stall: 42 * time.Millisecond},
		side: &side{
			Width: 2, Usage: usage, Granted: granted, Conns: []connSide{conn(roleRelay, 2000, 0, 700_000)},
			Counters: counters(udp.SentDatagrams, 2000, udp.SentBytes, 80_000, udp.ReceivedDatagrams, 700_000, udp.ReceivedBytes, 1_010_000_000),
		}}
	return []*member{relay, subscriber, publisher} // as they are started
}

func gigabyte() Options {
	o := DefaultOptions(Relay)
	o.Bytes, o.Chunk = 1_000_000_000, 100_000
	return o
}

func TestReportAddsUp(t *testing.T) {
	o := gigabyte()
	r := newReport(o, crewOf(o), &platform.UDPCounters{RcvbufErrors: 9})
	if r.MBPerS != 500 || r.WireMBPerS != 505 || r.LongestStallMS != 42 || r.ElapsedUS != 2e6 || !r.Meaningful {
		t.Errorf("throughput %+v", *r.Throughput)
	}
	if r.PacketsSent != 1_400_000 || r.PacketsLost != 70 || r.LossPercent != 0.005 {
		t.Errorf("packets with data: %d, lost %d, %v %%", r.PacketsSent, r.PacketsLost, r.LossPercent)
	}
	if r.DroppedInEngine != 100 || r.Processes[1].DroppedInEngine != 100 {
		t.Errorf("dropped in the engine: %d", r.DroppedInEngine)
	}
	if r.Refused != 6 || r.RefusedByErrno["emsgsize"] != 4 || r.RefusedByErrno["enobufs"] != 2 || len(r.RefusedByErrno) != 2 {
		t.Errorf("refused %d: %v", r.Refused, r.RefusedByErrno)
	}
	if r.PacketSizeBytes != 1452 || !r.LoopbackGuarantee || !strings.Contains(r.LoopbackGuaranteeReason, "64 packets of 1452 bytes fit the granted socket buffers (receive 8388608, send 4194304 bytes)") {
		t.Errorf("guarantee %v: %s", r.LoopbackGuarantee, r.LoopbackGuaranteeReason)
	}
	want := []Hop{
		{rolePublisher, roleRelay, Traffic{700_000, 1_015_000_000, 1450}, Traffic{1000, 40_000, 40}},
		{roleRelay, roleSubscriber, Traffic{700_000, 1_010_000_000, 1_010_000_000 / 700_000.}, Traffic{2000, 80_000, 40}},
	}
	if !slices.Equal(r.Hops, want) {
		t.Errorf("hops %+v, want %+v", r.Hops, want)
	}
	p := r.Processes[0]
	if p.Role != rolePublisher || p.SendCallsPerDatagram != 0.1 || p.ReceiveCallsPerDatagram != 0.5 || p.GSORatio != 0.5 || p.CPUPerGB != 2 {
		t.Errorf("publisher %+v", p)
	}
	if g := r.Processes[1].GRORatio; g != 0.5 {
		t.Errorf("gro ratio %v", g)
	}
}

func TestGuaranteeIsOffWhereOneEndSearches(t *testing.T) {
	o := gigabyte()
	crew := crewOf(o)
	crew[1].side.Conns[0].Stats.PacketSize = 0
	r := newReport(o, crew, nil)
	if r.LoopbackGuarantee || !strings.Contains(r.LoopbackGuaranteeReason, "do not fit") || r.PacketSizeBytes != 1452 {
		t.Errorf("guarantee %v: %s, packets of %d", r.LoopbackGuarantee, r.LoopbackGuaranteeReason, r.PacketSizeBytes)
	}
	o.PacketSize = 1452
	if r := newReport(o, crewOf(o), nil); r.LoopbackGuarantee || r.LoopbackGuaranteeReason != "the packet size was given" {
		t.Errorf("a given size: %v: %s", r.LoopbackGuarantee, r.LoopbackGuaranteeReason)
	}
	o.Stock = true
	if r := newReport(o, crewOf(o), nil); r.LoopbackGuarantee || r.LoopbackGuaranteeReason != "stock settings" {
		t.Errorf("stock: %v: %s", r.LoopbackGuarantee, r.LoopbackGuaranteeReason)
	}
}

func TestTable(t *testing.T) {
	o := gigabyte()
	r := newReport(o, crewOf(o), &platform.UDPCounters{RcvbufErrors: 9, SndbufErrors: 8, InErrors: 17})
	r.Notes = []string{"something to know"}
	var b strings.Builder
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(b.String()), " ") + " " // columns are wide
	for _, want := range []string{
		"note: something to know ", "500.0 MB/s (505.0 on the wire), 1000000000 bytes in 2.000 s, longest stall 42 ms",
		"1452 B, 1400000 sent, 70 lost (0.005 %), 100 dropped in the engine", "6 (EMSGSIZE 4, ENOBUFS 2)",
		"receive buffer drops 9, send errors 8, receive errors 17", "publisher 2 1.50 0.50 2.00 30 0.100 0.500 50 0 500 ", "subscriber 2 1.50 0.50 2.00 30 0.000 0.000 0 0 - ",
		"700000 datagrams of 1450 B, 1015.0 MB; back 1000 datagrams of 40 B, 0.0 MB",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), headingFill) {
		t.Errorf("a meaningful run is called a buffer-fill rate:\n%s", b.String())
	}
}

// TestKeysAreStable: scripts read the JSON output. A key that goes away or gets
// another name breaks them; run with -update when one is added.
func TestKeysAreStable(t *testing.T) {
	mass := gigabyte()
	pings := DefaultOptions(Relay)
	pings.Latency = true
	timed := crewOf(pings)
	timed[2].done = &done{Frames: 5, Delivery: &Percentiles{P50: 1}, RoundTrip: &Percentiles{P50: 2}}
	for name, r := range map[string]Report{
		"throughput": newReport(mass, crewOf(mass), &platform.UDPCounters{}),
		"latency":    newReport(pings, timed, &platform.UDPCounters{}),
	} {
		r.Notes = []string{"a note"}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var tree map[string]any
		if err := json.Unmarshal(text, &tree); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(keysOf("", tree), "\n") + "\n"
		file := filepath.Join("testdata", "keys_"+name+".txt")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("keys of the %s report, see %s:\n%s", name, file, got)
		}
	}
}

// keysOf lists the paths of all values, without those that other packages name.
func keysOf(path string, v any) []string {
	switch path {
	case ".processes[].counters", ".processes[].capabilities", ".processes[].granted", ".udp_refused_by_errno", ".kernel_udp_delta":
		return []string{path}
	}
	var out []string
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			out = append(out, keysOf(path+"."+k, x)...)
		}
	case []any:
		for _, x := range v {
			out = append(out, keysOf(path+"[]", x)...)
		}
	default:
		out = []string{path}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
