package bpf

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	h := Histogram{Slots: make([]uint64, 40)}
	for v := range uint64(1000) {
		h.Count++
		h.Sum += v
		h.Slots[slotOf(v, 40)]++
	}
	if h.Mean() != 499.5 {
		t.Errorf("mean %v", h.Mean())
	}
	for _, q := range []float64{0.1, 0.25, 0.5, 0.75, 0.9, 0.99} {
		if got, want := h.Quantile(q), 1000*q; got < want/2 || got > want*2 {
			t.Errorf("quantile %v is %v, want %v within a factor of two", q, got, want)
		}
	}
	if lo, hi := h.Quantile(-1), h.Quantile(2); lo != 0 || hi != 1024 {
		t.Errorf("ends %v and %v, want 0 and 1024", lo, hi)
	}
	last := 0.0
	for q := 0.0; q <= 1; q += 0.01 {
		if v := h.Quantile(q); v < last {
			t.Errorf("quantile %v is below the one before", q)
		} else {
			last = v
		}
	}
	if (Histogram{}).Quantile(0.5) != 0 || (Histogram{}).Mean() != 0 {
		t.Error("an empty histogram has values")
	}
}

func TestSlotOf(t *testing.T) {
	for v, want := range map[uint64]int{0: 0, 1: 0, 2: 1, 3: 1, 4: 2, 1023: 9, 1024: 10, math.MaxUint64: 39} {
		if got := slotOf(v, 40); got != want {
			t.Errorf("slot of %d is %d, want %d", v, got, want)
		}
	}
	for i := 1; i < 40; i++ {
		low, high := slotEdges(i)
		if slotOf(uint64(low), 64) != i || slotOf(uint64(high), 64) != i+1 {
			t.Errorf("slot %d has the edges %v and %v", i, low, high)
		}
	}
}

func TestSnapshotDifference(t *testing.T) {
	start := time.Now()
	at := func(n uint64, since time.Time) Snapshot {
		h := Histogram{Count: n, Sum: 10 * n, Slots: []uint64{n, 0}}
		s := Snapshot{
			Mode:     ModeFull,
			Attached: map[Metric]time.Time{},
			Wakeups:  &Wakeups{Total: n, By: []WakeupCount{{CauseEpoll, WakerSelf, "epoll_pwait", n}, {CauseFutex, WakerOther, "futex", 5}}},
			CPUTime:  &CPUTime{RunQueue: h, OnCPU: h, Asleep: h, Preemptions: n, Threads: []ThreadTime{{TID: 7, RunQueue: time.Duration(n), Runs: n}}},
			Sends: &Sends{Sent: n, Refused: n, Errors: []SendError{{Errno: 90, Name: "EMSGSIZE", Call: "sendmsg", Count: n, LastLength: uint32(n)}},
				Peers: []PeerErrors{{Errno: 90, Count: n}, {Errno: 22, Count: 5}}},
			Receives: &Receives{Sockets: []SocketReceives{{Cookie: 3, Receives: n, Wakeups: n, PerWakeup: h}}},
			GRO:      &GRO{Merged: n, Segments: 3 * n, PerMerged: h},
			Drops:    &Drops{Sockets: []SocketDrops{{Cookie: 3, BufferFull: n}}},
			Overhead: Overhead{Programs: []ProgramCost{{Program: Program{Name: "p"}, Runs: n, Time: time.Duration(n)}}},
		}
		for _, m := range Metrics() {
			s.Attached[m] = since
		}
		return s
	}
	d := at(100, start).Sub(at(40, start))
	if d.Wakeups.Total != 60 || len(d.Wakeups.By) != 1 || d.Wakeups.Count(CauseEpoll) != 60 || d.Wakeups.Count(CauseFutex) != 0 {
		t.Errorf("wakeups %+v", d.Wakeups)
	}
	if c := d.CPUTime; c.RunQueue.Count != 60 || c.OnCPU.Sum != 600 || c.Asleep.Slots[0] != 60 || c.Preemptions != 60 || c.Threads[0].RunQueue != 60 || c.Threads[0].Runs != 60 {
		t.Errorf("cpu time %+v", c)
	}
	if s := d.Sends; s.Sent != 60 || s.Refused != 60 || s.Count("EMSGSIZE") != 60 || s.Errors[0].LastLength != 100 || len(s.Peers) != 1 || s.Peers[0].Count != 60 {
		t.Errorf("sends %+v", s)
	}
	if r := d.Receives.Socket(3); r.Receives != 60 || r.Wakeups != 60 || r.PerWakeup.Sum != 600 {
		t.Errorf("receives %+v", r)
	}
	if d.GRO.Merged != 60 || d.GRO.Extra() != 120 || d.Drops.Socket(3).Total() != 60 || d.Overhead.Programs[0].Runs != 60 || d.Overhead.Time() != 60 {
		t.Errorf("rest %+v %+v %+v", d.GRO, d.Drops, d.Overhead)
	}
	// Attached anew in between: nothing to take off.
	if d := at(100, start.Add(time.Second)).Sub(at(40, start)); d.Wakeups.Total != 100 || d.Drops.Total() != 100 {
		t.Errorf("difference across a new start: %+v %+v", d.Wakeups, d.Drops)
	}
	// Off then or now.
	if d := at(100, start).Sub(Snapshot{}); d.Sends.Sent != 100 {
		t.Errorf("difference to nothing: %+v", d.Sends)
	}
	if d := (Snapshot{}).Sub(at(100, start)); d.Sends != nil {
		t.Errorf("nothing less something: %+v", d.Sends)
	}
}

func TestModesAndReasonsAsText(t *testing.T) {
	for _, want := range []Mode{ModeOff, ModeSched, ModeFull} {
		text, err := want.MarshalText()
		var got Mode
		if err != nil || got.UnmarshalText(text) != nil || got != want {
			t.Errorf("%s became %s", want, got)
		}
	}
	var m Mode
	if err := m.UnmarshalText([]byte("on")); err == nil || !strings.Contains(err.Error(), "off, sched or full") {
		t.Errorf("mode on: %v", err)
	}
	seen := map[string]bool{}
	for k := ReasonMode; k <= ReasonOther; k++ {
		if s := k.String(); s == "unknown" || seen[s] {
			t.Errorf("reason %d is called %s", k, s)
		} else {
			seen[s] = true
		}
	}
	text, err := json.Marshal(Status{Metrics: []MetricStatus{{Metric: MetricGRO, Reason: &Reason{Kind: ReasonRights, Text: "a", Remedy: "b"}}}})
	if err != nil || !strings.Contains(string(text), `"reason":{"kind":"rights","text":"a","remedy":"b"}`) || strings.Contains(string(text), "since") {
		t.Errorf("%s, %v", text, err)
	}
}

// What holds on every system, with or without probes.
func TestOffWorksEverywhere(t *testing.T) {
	p, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	st := p.Status()
	if len(st.Metrics) != len(Metrics()) {
		t.Fatalf("status %+v", st)
	}
	for i, m := range st.Metrics {
		if m.Metric != Metrics()[i] || m.On || m.Reason == nil || st.Metric(m.Metric).Reason != m.Reason {
			t.Errorf("%+v", m)
		}
	}
	if s, err := p.Snapshot(); err != nil || len(s.Attached) != 0 {
		t.Errorf("snapshot %+v, %v", s, err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
