package daemon

import (
	"time"

	"felix/bpf"
	"felix/broker"
	"felix/broker/session"
	"felix/transport"
	"felix/udp"
)

// DevTenant and DevNamespace are what development mode registers.
const (
	DevTenant    = "t1"
	DevNamespace = "default"
)

// The protocol's port and the port of the HTTP interface.
const (
	defaultQUICPort    = "5000"
	defaultMetricsPort = "8080"
)

// Names of the sets of defaults.
const (
	profileStandard = "standard"
	profileLossless = "lossless"
)

// losslessWaitMS is how long the lossless profile lets a publish wait.
const losslessWaitMS = 60_000

// DefaultConfig returns the settings of a broker whose configuration file is
// empty. With dev they are those of development mode.
func DefaultConfig(dev bool) Config {
	b, se := broker.DefaultOptions(), session.DefaultConfig()
	c := Config{
		Profile:                     profileStandard,
		MetricsBind:                 "0.0.0.0:" + defaultMetricsPort,
		LogLevel:                    "info",
		LogFormat:                   "text",
		ShutdownDrainTimeoutMS:      25_000,
		Probes:                      bpf.ModeOff.String(),
		QUICBind:                    "0.0.0.0:" + defaultQUICPort,
		MaxConnections:              transport.DefaultMaxConns,
		MaxHandshakes:               transport.DefaultMaxHandshakes,
		RetryAbove:                  transport.DefaultRetryAbove,
		KeepAliveMS:                 ms(transport.DefaultKeepAlive),
		IdleTimeoutMS:               ms(transport.DefaultIdleTimeout),
		HandshakeTimeoutMS:          ms(transport.DefaultHandshakeTimeout),
		MaxIncomingStreams:          transport.DefaultMaxIncomingStreams,
		MaxIncomingUniStreams:       transport.DefaultMaxIncomingUniStreams,
		ReceiveBudgetBytes:          transport.DefaultReceiveBudget,
		MTUDiscovery:                true,
		UDPSendBuffer:               udp.DefaultBuffer,
		UDPRecvBuffer:               udp.DefaultBuffer,
		UDPGSO:                      "auto",
		UDPGRO:                      "auto",
		UDPSendMMsg:                 "auto",
		UDPRecvMMsg:                 "auto",
		UDPECN:                      "auto",
		AuthTimeoutMS:               ms(se.AuthTimeout),
		ConnAuthTimeoutMS:           ms(se.ConnAuthTimeout),
		MaxFrameBytes:               se.MaxFrameBytes,
		AckWaitTimeoutMS:            ms(b.CommitWait),
		PublishQueueWaitTimeoutMS:   ms(b.QueueWait),
		PubWorkersPerConn:           b.Workers,
		PubQueueDepth:               b.WorkerQueueDepth,
		PubInflightBytes:            b.InflightBytes,
		PubConnInflightBytes:        b.ConnInflightBytes,
		PubIngressWait:              se.UnackedWait == broker.WaitForever,
		ReplyQueueDepth:             se.ReplyQueue,
		ReplyQueueBytes:             se.ReplyQueueBytes,
		ControlStreamDrainTimeoutMS: ms(se.ReplyStallTimeout),
		SubscriberQueueCapacity:     b.SubQueueBatches,
		SubscriberQueueBytes:        b.SubQueueBytes,
		SubscriberQueuePolicy:       b.SubPolicy.String(),
		MaxSubscriptionsPerConn:     b.MaxSubscriptionsPerConn,
		EventBatchMaxEvents:         b.EventBatchMaxEvents,
		EventBatchMaxBytes:          b.EventBatchMaxBytes,
		EventBatchMaxDelayUS:        int(se.EventBatchMaxDelay / time.Microsecond),
		FanoutBatchSize:             b.EventBatchMaxEvents,
		SubscriberMaxBytesPerWrite:  se.MaxBytesPerWrite,
		SubscriberOpenTimeoutMS:     ms(se.OpenTimeout),
		EventOffsets:                se.Offsets.String(),
		RingEntries:                 b.RingEntries,
		RingBytes:                   b.RingBytes,
		CacheMaxBytes:               b.CacheMaxBytes,
		MaxStreams:                  b.MaxStreams,
		MaxCaches:                   b.MaxCaches,
		MaxNameBytes:                b.MaxNameBytes,
	}
	if dev {
		c.Dev = true
		c.QUICBind = "127.0.0.1:" + defaultQUICPort
		c.MetricsBind = "127.0.0.1:" + defaultMetricsPort
		c.AutoCreate = true
		c.Registry = Registry{
			Tenants:    []string{DevTenant},
			Namespaces: []NamespaceEntry{{Tenant: DevTenant, Namespace: DevNamespace}},
		}
	}
	return c
}

// withProfile returns c with the defaults of a profile. An unknown one leaves
// it alone; Validate refuses it later.
func (c Config) withProfile(profile string) Config {
	if profile == profileLossless {
		c.Profile = profile
		c.SubscriberQueuePolicy = broker.PolicyBlock.String()
		c.AckOnCommit = true
		c.PubIngressWait = true
		c.PublishQueueWaitTimeoutMS = losslessWaitMS
		c.AckWaitTimeoutMS = losslessWaitMS
	}
	return c
}

func ms(d time.Duration) int { return int(d.Milliseconds()) }
