package udpprobe

import (
	"strings"
	"testing"
	"time"

	"felix/platform"
	"felix/udp"
)

// counted is a host's counters with nothing to report.
func counted() counters {
	return counters{udp: &platform.UDPStats{}, softnet: &platform.SoftnetStats{}}
}

// cleanRun is 100 000 datagrams of 1000 bytes in 0.1 s without incident.
func cleanRun() (Options, senderResult, receiverResult) {
	o := DefaultOptions()
	o.Segment = 1000
	buffers := udp.Buffers{Read: udp.Grant{Asked: 8 << 20, Granted: 8 << 20}}
	s := senderResult{Offered: 100_000, side: side{Granted: buffers, Stats: map[string]uint64{"sent_datagrams": 100_000, "send_calls": 2000}}}
	s.Capabilities.GSO.Active, s.Capabilities.MaxSegments = true, 128
	r := receiverResult{
		Received: 100_000, Timed: 99_968, Elapsed: 100 * time.Millisecond,
		side: side{Granted: buffers, Stats: map[string]uint64{"receive_calls": 500}},
	}
	return o, s, r
}

func TestCleanRun(t *testing.T) {
	o, s, r := cleanRun()
	x := newReport(o, s, r, counted(), counted())
	if !x.Valid || x.Lost != 0 || x.Unaccounted != 0 || x.Refused != 0 {
		t.Errorf("valid %v %v, lost %d, unaccounted %d", x.Valid, x.InvalidReasons, x.Lost, x.Unaccounted)
	}
	if x.MBPerS < 999.6 || x.MBPerS > 999.8 {
		t.Errorf("%v MB/s, want 99968 kB in 0.1 s", x.MBPerS)
	}
	if x.SendCallsPerDatagram != 0.02 || x.ReceiveCallsPerDatagram != 0.005 {
		t.Errorf("calls per datagram: %v, %v", x.SendCallsPerDatagram, x.ReceiveCallsPerDatagram)
	}
}

// TestLossIsExplainedOrInvalid is the ledger of a run: what is missing must be
// explained by a counter, and no counter explains more than it can.
func TestLossIsExplainedOrInvalid(t *testing.T) {
	for _, c := range []struct {
		name              string
		spoil             func(o *Options, s *senderResult, r *receiverResult, after *counters)
		lost, unaccounted uint64
	}{
		{"lost without a trace", func(_ *Options, _ *senderResult, r *receiverResult, _ *counters) { r.Received -= 500 }, 500, 500},
		{"the socket counted one coalesced message of up to 65", func(_ *Options, _ *senderResult, r *receiverResult, _ *counters) {
			r.Received -= 65
			r.Stats["overflow_drops"] = 1
		}, 65, 0},
		{"one message does not hold 66", func(_ *Options, _ *senderResult, r *receiverResult, _ *counters) {
			r.Received -= 66
			r.Stats["overflow_drops"] = 1
		}, 66, 1},
		{"without segmentation a message is a datagram", func(_ *Options, s *senderResult, r *receiverResult, _ *counters) {
			s.Capabilities.GSO.Active = false
			r.Received -= 2
			r.Stats["overflow_drops"] = 1
		}, 2, 1},
		{"the host's counter repeats the socket's", func(_ *Options, s *senderResult, r *receiverResult, after *counters) {
			s.Capabilities.GSO.Active = false
			r.Received -= 2
			r.Stats["overflow_drops"] = 1
			after.udp.V4.RcvbufErrors = 1
		}, 2, 1},
		{"memory limit", func(_ *Options, _ *senderResult, r *receiverResult, after *counters) {
			r.Received -= 3
			after.udp.V4.MemErrors = 3
		}, 3, 0},
		{"the other family's counter explains nothing", func(_ *Options, _ *senderResult, r *receiverResult, after *counters) {
			r.Received -= 3
			after.udp.V6.MemErrors = 3
		}, 3, 3},
		{"IPv6", func(o *Options, _ *senderResult, r *receiverResult, after *counters) {
			o.V6 = true
			r.Received -= 3
			after.udp.V6.MemErrors = 3
		}, 3, 0},
		{"backlog", func(_ *Options, _ *senderResult, r *receiverResult, after *counters) {
			r.Received -= 3
			after.softnet.Dropped = 3
		}, 3, 0},
		{"dropped by the reader", func(_ *Options, _ *senderResult, r *receiverResult, _ *counters) {
			r.Received -= 1
			r.Stats["dropped_oversize"] = 1
		}, 1, 0},
		{"refused and given up", func(_ *Options, s *senderResult, r *receiverResult, _ *counters) {
			s.Stats["sent_datagrams"] -= 10
			s.Stats["lost_datagrams"] = 4
			s.Stats["too_large_datagrams"] = 6
			r.Received -= 10
		}, 0, 0},
		{"offered, neither sent nor given up", func(_ *Options, s *senderResult, r *receiverResult, _ *counters) {
			s.Stats["sent_datagrams"] -= 10
			r.Received -= 10
		}, 0, 10},
		{"a system without counters", func(_ *Options, _ *senderResult, r *receiverResult, after *counters) {
			r.Received -= 7
			*after = counters{}
		}, 7, 7},
	} {
		o, s, r := cleanRun()
		after := counted()
		c.spoil(&o, &s, &r, &after)
		x := newReport(o, s, r, counted(), after)
		if x.Lost != c.lost || x.Unaccounted != c.unaccounted {
			t.Errorf("%s: lost %d, unaccounted %d, want %d, %d", c.name, x.Lost, x.Unaccounted, c.lost, c.unaccounted)
		}
		if x.Valid != (c.unaccounted == 0) {
			t.Errorf("%s: valid %v, %v", c.name, x.Valid, x.InvalidReasons)
		}
	}
}

func TestTooLittleIsInvalid(t *testing.T) {
	o, s, r := cleanRun()
	s.Offered, s.Stats["sent_datagrams"], r.Received = 5000, 5000, 5000
	x := newReport(o, s, r, counted(), counted())
	if x.Valid || !strings.Contains(strings.Join(x.InvalidReasons, ""), "run longer") {
		t.Errorf("5000 datagrams in a buffer of 2774: %v", x.InvalidReasons)
	}
	o, s, r = cleanRun()
	r.Elapsed = 0
	if x := newReport(o, s, r, counted(), counted()); x.Valid || x.MBPerS != 0 {
		t.Errorf("no time passed: %v, %v MB/s", x.InvalidReasons, x.MBPerS)
	}
}

func TestTable(t *testing.T) {
	o, s, r := cleanRun()
	s.Stats["refused_emsgsize"], s.Stats["refused_eio"] = 7, 2
	s.Capabilities.SendMMsg.Active = true
	r.Received -= 500
	x := newReport(o, s, r, counted(), counted())
	if x.Refused != 9 {
		t.Errorf("refused %d", x.Refused)
	}
	var b strings.Builder
	if err := x.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"INVALID RUN: 500 datagrams are missing", "9 (EIO 2, EMSGSIZE 7)", "sendmmsg+UDP_SEGMENT", "recvmsg", "500 (500 unaccounted)", "999.7 MB/s",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, b.String())
		}
	}
}
