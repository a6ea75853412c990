// Package daemon is the composition root of the Felix broker: it reads the
// settings, builds the broker core, the protocol server and the QUIC listener,
// and starts, watches, drains and stops them. It is the only package of the
// broker that writes log lines and the only one that knows about files,
// signals, service managers and the HTTP interfaces.
package daemon

//go:generate go run felix/internal/docgen -dir ../docs

import (
	"time"
)

// Config holds every setting of the broker. A Config is plain data: it is
// filled once (DefaultConfig, Load), checked once (Validate) and not changed
// afterwards. The unit of a number is in the name of its setting (_ms, _us,
// _bytes); the settings whose names come from the original broker keep them,
// and their unit is in the Settings table.
//
// The yaml tag is the key in the configuration file and in --set; the env tag
// is the environment variable. Settings describes each of them.
type Config struct {
	Dev                    bool   `yaml:"dev" env:"FELIX_DEV"`
	Profile                string `yaml:"profile" env:"FELIX_PROFILE"`
	DataDir                string `yaml:"data_dir" env:"FELIX_DATA_DIR"`
	AdminSocket            string `yaml:"admin_socket" env:"FELIX_ADMIN_SOCKET"`
	MetricsBind            string `yaml:"metrics_bind" env:"FELIX_BROKER_METRICS_BIND"`
	LogLevel               string `yaml:"log_level" env:"FELIX_LOG_LEVEL"`
	LogFormat              string `yaml:"log_format" env:"FELIX_LOG_FORMAT"`
	ShutdownDrainTimeoutMS int    `yaml:"shutdown_drain_timeout_ms" env:"FELIX_SHUTDOWN_DRAIN_TIMEOUT_MS"`
	DrainGraceMS           int    `yaml:"drain_grace_ms" env:"FELIX_DRAIN_GRACE_MS"`
	WorkerThreads          int    `yaml:"worker_threads" env:"FELIX_WORKER_THREADS"`
	ConnStatsMS            int    `yaml:"conn_stats_ms" env:"FELIX_CONN_STATS_MS"`
	DisableTimings         bool   `yaml:"disable_timings" env:"FELIX_DISABLE_TIMINGS"`
	Probes                 string `yaml:"probes" env:"FELIX_PROBES"`
	ProbesRequired         bool   `yaml:"probes_required" env:"FELIX_PROBES_REQUIRED"`
	ProbesPinDir           string `yaml:"probes_pin_dir" env:"FELIX_PROBES_PIN_DIR"`

	QUICBind              string `yaml:"quic_bind" env:"FELIX_QUIC_BIND"`
	MaxConnections        int    `yaml:"max_connections" env:"FELIX_MAX_CONNECTIONS"`
	MaxHandshakes         int    `yaml:"max_handshakes" env:"FELIX_MAX_HANDSHAKES"`
	RetryAbove            int    `yaml:"retry_above" env:"FELIX_RETRY_ABOVE"`
	KeepAliveMS           int    `yaml:"keep_alive_ms" env:"FELIX_KEEP_ALIVE_MS"`
	IdleTimeoutMS         int    `yaml:"idle_timeout_ms" env:"FELIX_IDLE_TIMEOUT_MS"`
	HandshakeTimeoutMS    int    `yaml:"handshake_timeout_ms" env:"FELIX_HANDSHAKE_TIMEOUT_MS"`
	MaxIncomingStreams    int64  `yaml:"max_incoming_streams" env:"FELIX_MAX_INCOMING_STREAMS"`
	MaxIncomingUniStreams int64  `yaml:"max_incoming_uni_streams" env:"FELIX_MAX_INCOMING_UNI_STREAMS"`
	ConnRecvWindow        uint64 `yaml:"cache_conn_recv_window" env:"FELIX_CACHE_CONN_RECV_WINDOW"`
	StreamRecvWindow      uint64 `yaml:"cache_stream_recv_window" env:"FELIX_CACHE_STREAM_RECV_WINDOW"`
	ConnInitialWindow     uint64 `yaml:"conn_initial_window" env:"FELIX_CONN_INITIAL_WINDOW"`
	StreamInitialWindow   uint64 `yaml:"stream_initial_window" env:"FELIX_STREAM_INITIAL_WINDOW"`
	ReceiveBudgetBytes    int64  `yaml:"receive_budget_bytes" env:"FELIX_RECEIVE_BUDGET_BYTES"`
	InitialMTU            int    `yaml:"initial_mtu" env:"FELIX_INITIAL_MTU"`
	MTUDiscovery          bool   `yaml:"mtu_discovery" env:"FELIX_MTU_DISCOVERY"`
	LoopbackPacketSize    int    `yaml:"loopback_packet_size" env:"FELIX_LOOPBACK_PACKET_SIZE"`
	UDPSendBuffer         int    `yaml:"udp_send_buffer" env:"FELIX_UDP_SEND_BUFFER"`
	UDPRecvBuffer         int    `yaml:"udp_recv_buffer" env:"FELIX_UDP_RECV_BUFFER"`
	UDPGSO                string `yaml:"udp_gso" env:"FELIX_UDP_GSO"`
	UDPGRO                string `yaml:"udp_gro" env:"FELIX_UDP_GRO"`
	UDPSendMMsg           string `yaml:"udp_sendmmsg" env:"FELIX_UDP_SENDMMSG"`
	UDPRecvMMsg           string `yaml:"udp_recvmmsg" env:"FELIX_UDP_RECVMMSG"`
	UDPECN                string `yaml:"udp_ecn" env:"FELIX_UDP_ECN"`

	TLSCertFile       string   `yaml:"tls_cert_file" env:"FELIX_TLS_CERT_FILE"`
	TLSKeyFile        string   `yaml:"tls_key_file" env:"FELIX_TLS_KEY_FILE"`
	TLSNames          []string `yaml:"tls_names" env:"FELIX_TLS_NAMES"`
	TLSRequireALPN    bool     `yaml:"tls_require_alpn" env:"FELIX_TLS_REQUIRE_ALPN"`
	JWKSFile          string   `yaml:"jwks_file" env:"FELIX_JWKS_FILE"`
	AuthTimeoutMS     int      `yaml:"auth_timeout_ms" env:"FELIX_AUTH_TIMEOUT_MS"`
	ConnAuthTimeoutMS int      `yaml:"conn_auth_timeout_ms" env:"FELIX_CONN_AUTH_TIMEOUT_MS"`

	MaxFrameBytes               int   `yaml:"max_frame_bytes" env:"FELIX_MAX_FRAME_BYTES"`
	AckOnCommit                 bool  `yaml:"ack_on_commit" env:"FELIX_ACK_ON_COMMIT"`
	AckWaitTimeoutMS            int   `yaml:"ack_wait_timeout_ms" env:"FELIX_ACK_WAIT_TIMEOUT_MS"`
	PublishQueueWaitTimeoutMS   int   `yaml:"publish_queue_wait_timeout_ms" env:"FELIX_PUBLISH_QUEUE_WAIT_MS"`
	PubIngressWait              bool  `yaml:"pub_ingress_wait" env:"FELIX_PUB_INGRESS_WAIT"`
	PubWorkersPerConn           int   `yaml:"pub_workers_per_conn" env:"FELIX_BROKER_PUB_WORKERS_PER_CONN"`
	PubQueueDepth               int   `yaml:"pub_queue_depth" env:"FELIX_BROKER_PUB_QUEUE_DEPTH"`
	PubInflightBytes            int64 `yaml:"pub_inflight_bytes" env:"FELIX_BROKER_PUBLISH_INFLIGHT_BYTES"`
	PubConnInflightBytes        int64 `yaml:"pub_conn_inflight_bytes" env:"FELIX_BROKER_PUBLISH_CONN_INFLIGHT_BYTES"`
	ReplyQueueDepth             int   `yaml:"reply_queue_depth" env:"FELIX_REPLY_QUEUE_DEPTH"`
	ReplyQueueBytes             int   `yaml:"reply_queue_bytes" env:"FELIX_REPLY_QUEUE_BYTES"`
	ControlStreamDrainTimeoutMS int   `yaml:"control_stream_drain_timeout_ms" env:"FELIX_CONTROL_STREAM_DRAIN_TIMEOUT_MS"`

	SubscriberQueueCapacity    int    `yaml:"subscriber_queue_capacity" env:"FELIX_SUBSCRIBER_QUEUE_CAPACITY"`
	SubscriberQueueBytes       int64  `yaml:"subscriber_queue_bytes" env:"FELIX_SUBSCRIBER_QUEUE_BYTES"`
	SubscriberQueuePolicy      string `yaml:"subscriber_queue_policy" env:"FELIX_SUB_QUEUE_POLICY"`
	MaxSubscriptionsPerConn    int    `yaml:"max_subscriptions_per_conn" env:"FELIX_MAX_SUBSCRIPTIONS_PER_CONN"`
	EventBatchMaxEvents        int    `yaml:"event_batch_max_events" env:"FELIX_EVENT_BATCH_MAX_EVENTS"`
	EventBatchMaxBytes         int    `yaml:"event_batch_max_bytes" env:"FELIX_EVENT_BATCH_MAX_BYTES"`
	EventBatchMaxDelayUS       int    `yaml:"event_batch_max_delay_us" env:"FELIX_EVENT_BATCH_MAX_DELAY_US"`
	FanoutBatchSize            int    `yaml:"fanout_batch_size" env:"FELIX_FANOUT_BATCH"`
	SubscriberMaxBytesPerWrite int    `yaml:"subscriber_max_bytes_per_write" env:"FELIX_SUB_MAX_BYTES_PER_WRITE"`
	SubscriberOpenTimeoutMS    int    `yaml:"subscriber_open_timeout_ms" env:"FELIX_SUB_OPEN_TIMEOUT_MS"`
	EventOffsets               string `yaml:"event_offsets" env:"FELIX_EVENT_OFFSETS"`

	RingEntries   int      `yaml:"ring_entries" env:"FELIX_RING_ENTRIES"`
	RingBytes     int64    `yaml:"ring_bytes" env:"FELIX_RING_BYTES"`
	CacheMaxBytes int64    `yaml:"cache_max_bytes" env:"FELIX_CACHE_MAX_BYTES"`
	MaxStreams    int      `yaml:"max_streams" env:"FELIX_MAX_STREAMS"`
	MaxCaches     int      `yaml:"max_caches" env:"FELIX_MAX_CACHES"`
	MaxNameBytes  int      `yaml:"max_name_bytes" env:"FELIX_MAX_NAME_BYTES"`
	AutoCreate    bool     `yaml:"auto_create" env:"FELIX_AUTO_CREATE"`
	Registry      Registry `yaml:"registry"`
}

// Registry lists what exists from the start: tenants, their namespaces, and
// the streams and caches in them. Missing parents are made. It can only be
// set in the configuration file.
type Registry struct {
	Tenants    []string         `yaml:"tenants"`
	Namespaces []NamespaceEntry `yaml:"namespaces"`
	Streams    []StreamEntry    `yaml:"streams"`
	Caches     []CacheEntry     `yaml:"caches"`
}

// NamespaceEntry registers one namespace of a tenant.
type NamespaceEntry struct {
	Tenant    string `yaml:"tenant"`
	Namespace string `yaml:"namespace"`
}

// StreamEntry registers one stream. Zero ring limits mean the broker's
// ring_entries and ring_bytes.
type StreamEntry struct {
	Tenant      string `yaml:"tenant"`
	Namespace   string `yaml:"namespace"`
	Stream      string `yaml:"stream"`
	RingEntries int    `yaml:"ring_entries,omitempty"`
	RingBytes   int64  `yaml:"ring_bytes,omitempty"`
}

// CacheEntry registers one cache scope.
type CacheEntry struct {
	Tenant    string `yaml:"tenant"`
	Namespace string `yaml:"namespace"`
	Cache     string `yaml:"cache"`
}

func millis(n int) time.Duration { return time.Duration(n) * time.Millisecond }
