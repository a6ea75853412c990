package daemon

import (
	"maps"
	"slices"
	"strings"
)

// Reasons why a setting of the original broker does not exist here.
const (
	noLanes        = "there are no writer lanes: each subscription writes straight to its own QUIC stream"
	noControlPlane = "this broker reads no control plane: list tenants and streams under registry, keys in jwks_file"
	noSendWindow   = "the QUIC engine has no send window: the receiver's window and the subscriber queue bound what is on the way"
	noLog          = "streams are kept in memory only: there is no durable log"
	noAckFrequency = "the QUIC engine has no ACK-frequency extension"
	noEffectEver   = "it had no effect in the original either"
	fixedEngine    = "the QUIC engine fixes it"
	noShards       = "a stream belongs to one of pub_workers_per_conn workers, which are not pinned to cores"
)

// retiredKeys are YAML keys of the original broker that are refused.
var retiredKeys = map[string]string{
	"controlplane_url":                  noControlPlane,
	"controlplane_sync_interval_ms":     noControlPlane,
	"cache_send_window":                 noSendWindow,
	"core_shards":                       noShards,
	"subscriber_flush_max_items":        "a subscription's writer takes whatever is queued, up to subscriber_max_bytes_per_write",
	"subscriber_writer_lanes":           noLanes,
	"subscriber_lane_queue_depth":       noLanes,
	"subscriber_lane_queue_policy":      noLanes,
	"max_subscriber_writer_lanes":       noLanes,
	"subscriber_lane_shard":             noLanes,
	"subscriber_single_writer_per_conn": noLanes,
	"subscriber_flush_max_delay_us":     noEffectEver,
	"sub_streams_per_conn":              noEffectEver,
	"sub_stream_mode":                   "every subscription has its own QUIC stream",
}

// retiredVariables are environment variables of the original broker that are
// reported once and ignored, since an environment is often shared between
// programs.
var retiredVariables = map[string]string{
	"FELIX_CONTROLPLANE_URL":              noControlPlane,
	"FELIX_CONTROLPLANE_SYNC_INTERVAL_MS": noControlPlane,
	"FELIX_CACHE_SEND_WINDOW":             noSendWindow,
	"FELIX_SUB_EGRESS_LANES":              noLanes,
	"FELIX_SUB_WRITER_LANES":              noLanes,
	"FELIX_SUB_QUEUE_BOUND":               noLanes,
	"FELIX_SUB_LANE_QUEUE_DEPTH":          noLanes,
	"FELIX_SUB_QUEUE_MODE":                noLanes,
	"FELIX_SUB_LANE_QUEUE_POLICY":         noLanes,
	"FELIX_MAX_SUB_WRITER_LANES":          noLanes,
	"FELIX_SUB_LANE_SHARD":                noLanes,
	"FELIX_SUB_SINGLE_WRITER_PER_CONN":    noLanes,
	"FELIX_SUB_FLUSH_MAX_DELAY_US":        noEffectEver,
	"FELIX_SUB_STREAMS_PER_CONN":          noEffectEver,
	"FELIX_SUB_STREAM_MODE":               "every subscription has its own QUIC stream",
	"FELIX_CORE_SHARDS":                   noShards,
	"FELIX_SUB_FLUSH_MAX_ITEMS":           "a subscription's writer takes whatever is queued, up to FELIX_SUB_MAX_BYTES_PER_WRITE",
	"FELIX_IO_RUNTIME_THREADS":            "there is no second thread pool: FELIX_WORKER_THREADS is the width of the runtime",
	"FELIX_MTU_UPPER_BOUND":               "the engine's ceiling bounds discovery: FELIX_MTU_DISCOVERY=off stops it, FELIX_LOOPBACK_PACKET_SIZE is for loopback",
	"FELIX_SERVICE_INSTANCE_ID":           "traces are not exported",

	"FELIX_DURABLE_STORAGE_DIR":                noLog,
	"FELIX_DURABLE_SEGMENT_BYTES":              noLog,
	"FELIX_DURABLE_INDEX_SPACING_BYTES":        noLog,
	"FELIX_DURABLE_FSYNC_MODE":                 noLog,
	"FELIX_DURABLE_FSYNC_INTERVAL_MS":          noLog,
	"FELIX_DURABLE_MAX_RECORDS_PER_READ":       noLog,
	"FELIX_DURABLE_PREALLOCATE":                noLog,
	"FELIX_DURABLE_VERIFY_ALL_ON_OPEN":         noLog,
	"FELIX_DURABLE_REPAIR_CHECKSUM_TAIL":       noLog,
	"FELIX_DURABLE_ROLLOVER_THRESHOLD_PERCENT": noLog,
	"FELIX_DURABLE_MAX_OVERSHOOT_PERCENT":      noLog,
	"FELIX_DURABLE_RETENTION_BYTES":            noLog,
	"FELIX_DURABLE_RETENTION_SECONDS":          noLog,
	"FELIX_DURABLE_RETENTION_INTERVAL_SECONDS": noLog,

	"FELIX_PUMP_COLOCATE":              "a stream's reader always runs one hop from the connection",
	"FELIX_MAX_UDP_PAYLOAD":            "datagrams of any size up to the engine's ceiling are taken",
	"FELIX_MTU_BLACK_HOLE_COOLDOWN_MS": fixedEngine,
	"FELIX_INITIAL_CWND":               fixedEngine,
	"FELIX_ACK_FREQ_DISABLE":           noAckFrequency,
	"FELIX_ACK_ELICITING_THRESHOLD":    noAckFrequency,
	"RUST_LOG":                         "use FELIX_LOG_LEVEL",
}

// foreignPrefixes start variables that belong to other programs of the
// project; felixd neither uses nor reports them.
var foreignPrefixes = []string{
	"FELIX_BENCH_", "FELIX_BOOTSTRAP_", "FELIX_CACHE_BENCH_", "FELIX_CLIENT_", "FELIX_CONTROLPLANE_",
	"FELIX_DEMO_", "FELIX_EVENT_CONN_", "FELIX_EVENT_STREAM_", "FELIX_LATENCY_DEMO_", "FELIX_PERF_", "FELIX_PROBE_", "FELIX_TEST_",
}

// foreignVariables are single variables of that kind.
var foreignVariables = []string{
	EnvConfigFile, "FELIX_ADDR", "FELIX_AUTH_TENANT", "FELIX_AUTH_TOKEN", "FELIX_CA", "FELIX_JSON", "FELIX_NAMESPACE", "FELIX_SERVER_NAME", "FELIX_TENANT", "FELIX_TOKEN", "FELIX_TOKEN_FILE",
	"FELIX_CACHE_CONN_POOL", "FELIX_CACHE_STREAMS_PER_CONN", "FELIX_EVENT_ROUTER_MAX_PENDING", "FELIX_EVENT_SEND_WINDOW",
	"FELIX_PUB_CONN_POOL", "FELIX_PUB_SHARDING", "FELIX_PUB_STREAMS_PER_CONN", "FELIX_PUBLISH_CHUNK_BYTES",
	"FELIX_PUBLISH_INFLIGHT_BYTES", "FELIX_PUBLISH_QUEUE_DEPTH", "FELIX_REGION_ID", "FELIX_SUB_CONNS", "FELIX_SUB_DEDICATED_QUEUE_CAPACITY",
	"FELIX_SUB_DEDICATED_THREAD", "FELIX_SUB_DELIVERY_SHAPING", "FELIX_SUB_EGRESS_CONNS", "FELIX_TIMING_SAMPLE_EVERY",
}

func foreignVariable(name string) bool {
	return slices.Contains(foreignVariables, name) ||
		slices.ContainsFunc(foreignPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// whyNotASetting says why a YAML key is refused.
func whyNotASetting(key string) string {
	if reason, ok := retiredKeys[key]; ok {
		return "has no effect in this broker: " + reason + " (remove the line)"
	}
	var keys []string
	for _, s := range Settings() {
		keys = append(keys, s.Key)
	}
	return "unknown setting" + suggest(key, keys)
}

// RetiredKeys returns the YAML keys of the original broker that are refused,
// with the reason.
func RetiredKeys() map[string]string { return maps.Clone(retiredKeys) }

// RetiredVariables returns the environment variables of the original broker
// that are ignored, with the reason.
func RetiredVariables() map[string]string { return maps.Clone(retiredVariables) }
