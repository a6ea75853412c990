package daemon

import (
	"cmp"
	"os"
	"slices"
	"strings"

	"felix/broker"
	"felix/broker/session"
)

// A Status is the answer to GET /v1/status.
type Status struct {
	BuildInfo
	State         string  `json:"state"` // starting, ok or draining
	Dev           bool    `json:"dev"`
	PID           int     `json:"pid"`
	UptimeS       float64 `json:"uptime_s"`
	Addr          string  `json:"addr"`
	MetricsAddr   string  `json:"metrics_addr"` // empty: off
	AdminSocket   string  `json:"admin_socket"`
	DataDir       string  `json:"data_dir"`
	Connections   int     `json:"connections"`
	Streams       int     `json:"streams"`
	Caches        int     `json:"caches"`
	Subscriptions int     `json:"subscriptions"`
	InflightBytes int64   `json:"inflight_bytes"`
	CacheBytes    int64   `json:"cache_bytes"`
}

// Created is the answer to a request that makes something; Created is false
// when it was there already.
type Created struct {
	Created bool `json:"created"`
}

// A StreamReport describes one stream.
type StreamReport struct {
	Tenant        string `json:"tenant"`
	Namespace     string `json:"namespace"`
	Stream        string `json:"stream"`
	Worker        int    `json:"worker"`
	Subscriptions int    `json:"subscriptions"`
	OldestSeq     uint64 `json:"oldest_seq"` // oldest event held for replay
	NextSeq       uint64 `json:"next_seq"`   // number of the next event
	RingBytes     int64  `json:"ring_bytes"`
}

// A CacheReport describes one cache scope.
type CacheReport struct {
	Tenant    string `json:"tenant"`
	Namespace string `json:"namespace"`
	Cache     string `json:"cache"`
	Entries   int    `json:"entries"`
	Bytes     int64  `json:"bytes"`
}

// A ConnectionReport describes one connection.
type ConnectionReport struct {
	ID             uint64  `json:"id"`
	RemoteAddr     string  `json:"remote_addr"`
	AgeS           float64 `json:"age_s"`
	Tenant         string  `json:"tenant"`
	Subject        string  `json:"subject"`
	ControlStreams int     `json:"control_streams"`
	UniStreams     int     `json:"uni_streams"`
	Subscriptions  int     `json:"subscriptions"`
	QueuedReplies  int     `json:"queued_replies"`
	FramesRead     uint64  `json:"frames_read"`
	// Path is what the transport knows; absent when the connection has just
	// ended.
	Path *PathReport `json:"path,omitempty"`
}

// A SubscriptionReport describes one subscription.
type SubscriptionReport struct {
	ID            uint64  `json:"id"`
	Connection    uint64  `json:"connection"`
	RemoteAddr    string  `json:"remote_addr"`
	Tenant        string  `json:"tenant"`
	Namespace     string  `json:"namespace"`
	Stream        string  `json:"stream"`
	Policy        string  `json:"policy"`
	AgeS          float64 `json:"age_s"`
	Replaying     bool    `json:"replaying"`
	QueuedBatches uint64  `json:"queued_batches"`
	QueuedEvents  uint64  `json:"queued_events"`
	QueuedBytes   int64   `json:"queued_bytes"`
	Delivered     uint64  `json:"delivered_events"`
	Dropped       uint64  `json:"dropped_events"`
	Frames        uint64  `json:"frames"`
	Events        uint64  `json:"events"`
	Bytes         uint64  `json:"bytes"`
	Writes        uint64  `json:"writes"`
	Wakeups       uint64  `json:"wakeups"`
	BlockedUS     int64   `json:"blocked_us"` // age of the write in progress
}

// A LedgerReport is the account of one stream: in each stage, what came in is
// what went out, was dropped or is queued.
type LedgerReport struct {
	Tenant    string        `json:"tenant"`
	Namespace string        `json:"namespace"`
	Stream    string        `json:"stream"`
	Stages    []StageReport `json:"stages"`
}

// A StageReport is one line of a LedgerReport, in events.
type StageReport struct {
	Stage     string            `json:"stage"`
	In        uint64            `json:"in_events"`
	Out       uint64            `json:"out_events"`
	Dropped   map[string]uint64 `json:"dropped_events"` // by reason; only what is not 0
	Queued    uint64            `json:"queued_events"`
	Imbalance int64             `json:"imbalance_events"` // 0 unless the broker has a defect
}

func (d *Daemon) status() Status {
	b := d.broker.Stats()
	s := Status{
		BuildInfo: Build(), State: d.ready.String(), Dev: d.cfg.Dev, PID: os.Getpid(), UptimeS: d.uptime().Seconds(),
		MetricsAddr: d.MetricsAddr(), AdminSocket: d.adminPath, DataDir: d.dataDir,
		Streams: b.Streams, Caches: b.Caches, Subscriptions: b.Subscriptions, InflightBytes: b.InflightBytes, CacheBytes: b.CacheBytes,
		Connections: len(d.connections()),
	}
	if phase(d.ready.phase.Load()) != phaseStarting {
		s.Addr = d.Addr()
	}
	return s
}

// sortByKey sorts a list by tenant, namespace and name.
func sortByKey[T any](list []T, key func(T) broker.Key) []T {
	slices.SortFunc(list, func(a, b T) int {
		k, l := key(a), key(b)
		return cmp.Or(strings.Compare(k.Tenant, l.Tenant), strings.Compare(k.Namespace, l.Namespace), strings.Compare(k.Name, l.Name))
	})
	return list
}

func (d *Daemon) streamReports() []StreamReport {
	out := []StreamReport{}
	for _, s := range d.broker.Streams() {
		out = append(out, StreamReport{
			Tenant: s.Key.Tenant, Namespace: s.Key.Namespace, Stream: s.Key.Name,
			Worker: s.Worker, Subscriptions: s.Subscriptions, OldestSeq: s.OldestSeq, NextSeq: s.NextSeq, RingBytes: s.RingBytes,
		})
	}
	return sortByKey(out, func(s StreamReport) broker.Key {
		return broker.Key{Tenant: s.Tenant, Namespace: s.Namespace, Name: s.Stream}
	})
}

func (d *Daemon) cacheReports() []CacheReport {
	out := []CacheReport{}
	for _, c := range d.broker.Caches() {
		out = append(out, CacheReport{Tenant: c.Key.Tenant, Namespace: c.Key.Namespace, Cache: c.Key.Name, Entries: c.Entries, Bytes: c.Bytes})
	}
	return sortByKey(out, func(c CacheReport) broker.Key {
		return broker.Key{Tenant: c.Tenant, Namespace: c.Namespace, Name: c.Cache}
	})
}

func (d *Daemon) connectionReports() []ConnectionReport {
	paths := map[uint64]PathReport{}
	for _, c := range d.connections() {
		p := pathReport(c)
		paths[p.ID] = p
	}
	out := []ConnectionReport{}
	for _, c := range d.server.Stats().Connections {
		r := ConnectionReport{
			ID: c.ID, RemoteAddr: c.RemoteAddr, AgeS: age(c.Since), Tenant: c.Tenant, Subject: c.Subject,
			ControlStreams: c.ControlStreams, UniStreams: c.UniStreams, Subscriptions: len(c.Subscriptions),
			QueuedReplies: c.QueuedReplies, FramesRead: c.FramesRead,
		}
		if p, ok := paths[c.Transport]; ok {
			r.Path = &p
		}
		out = append(out, r)
	}
	return out
}

func (d *Daemon) subscriptionReports() []SubscriptionReport {
	out := []SubscriptionReport{}
	for _, c := range d.server.Stats().Connections {
		for _, s := range c.Subscriptions {
			out = append(out, subscriptionReport(c, s))
		}
	}
	slices.SortFunc(out, func(a, b SubscriptionReport) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func subscriptionReport(c session.ConnectionStats, s session.SubscriptionStats) SubscriptionReport {
	q := s.Queue
	return SubscriptionReport{
		ID: q.ID, Connection: c.ID, RemoteAddr: c.RemoteAddr,
		Tenant: q.Stream.Tenant, Namespace: q.Stream.Namespace, Stream: q.Stream.Name, Policy: q.Policy.String(),
		AgeS: age(s.Since), Replaying: s.Replaying,
		QueuedBatches: q.Queued.Batches, QueuedEvents: q.Queued.Events, QueuedBytes: q.QueuedBytes,
		Delivered: q.Delivered.Events, Dropped: q.DroppedNew.Events + q.DroppedOld.Events,
		Frames: s.Frames, Events: s.Events, Bytes: s.Bytes, Writes: s.Writes, Wakeups: s.Wakeups,
		BlockedUS: s.BlockedFor.Microseconds(),
	}
}

func (d *Daemon) ledgerReports() []LedgerReport {
	out := []LedgerReport{}
	for _, l := range d.broker.Ledgers() {
		r := LedgerReport{Tenant: l.Key.Tenant, Namespace: l.Key.Namespace, Stream: l.Key.Name}
		for _, st := range l.Stages() {
			r.Stages = append(r.Stages, stageReport(&l, st))
		}
		out = append(out, r)
	}
	return sortByKey(out, func(l LedgerReport) broker.Key {
		return broker.Key{Tenant: l.Tenant, Namespace: l.Namespace, Name: l.Stream}
	})
}

func stageReport(l *broker.Ledger, st broker.Stage) StageReport {
	r := StageReport{Stage: st.Name, In: l.Counts[st.In].Events, Out: l.Counts[st.Out].Events, Queued: st.Queued.Events, Dropped: map[string]uint64{}}
	for _, c := range st.Dropped {
		if n := l.Counts[c].Events; n > 0 {
			r.Dropped[c.Name()] = n
		}
	}
	_, r.Imbalance, _ = l.Imbalance(st)
	return r
}
