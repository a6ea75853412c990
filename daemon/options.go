package daemon

import (
	"log/slog"
	"time"

	"felix/broker"
	"felix/broker/session"
	"felix/transport"
	"felix/udp"
)

// brokerOptions are the settings of the broker core. c has been validated.
func (c *Config) brokerOptions() (broker.Options, error) {
	policy, err := broker.ParsePolicy(c.SubscriberQueuePolicy)
	if err != nil {
		return broker.Options{}, err
	}
	o := broker.Options{
		Workers:                 c.PubWorkersPerConn,
		WorkerQueueDepth:        c.PubQueueDepth,
		InflightBytes:           c.PubInflightBytes,
		ConnInflightBytes:       c.PubConnInflightBytes,
		QueueWait:               millis(c.PublishQueueWaitTimeoutMS),
		CommitWait:              millis(c.AckWaitTimeoutMS),
		RingEntries:             c.RingEntries,
		RingBytes:               c.RingBytes,
		SubQueueBatches:         c.SubscriberQueueCapacity,
		SubQueueBytes:           c.SubscriberQueueBytes,
		SubPolicy:               policy,
		MaxSubscriptionsPerConn: c.MaxSubscriptionsPerConn,
		EventBatchMaxEvents:     min(c.EventBatchMaxEvents, c.FanoutBatchSize),
		EventBatchMaxBytes:      c.EventBatchMaxBytes,
		AutoCreate:              c.AutoCreate,
		MaxStreams:              c.MaxStreams,
		MaxCaches:               c.MaxCaches,
		MaxNameBytes:            c.MaxNameBytes,
		CacheMaxBytes:           c.CacheMaxBytes,
	}
	if o.RingEntries == 0 {
		o.RingEntries = -1 // for broker.Options zero is the default, and negative none
	}
	return o, nil
}

// sessionConfig are the settings of the protocol server.
func (c *Config) sessionConfig() (session.Config, error) {
	offsets, err := session.ParseOffsets(c.EventOffsets)
	if err != nil {
		return session.Config{}, err
	}
	s := session.DefaultConfig()
	s.MaxFrameBytes = c.MaxFrameBytes
	s.AuthTimeout = millis(c.AuthTimeoutMS)
	s.ConnAuthTimeout = millis(c.ConnAuthTimeoutMS)
	s.AckOnCommit = c.AckOnCommit
	s.UnackedWait = broker.WaitNone
	if c.PubIngressWait {
		s.UnackedWait = broker.WaitForever
	}
	s.ReplyQueue = c.ReplyQueueDepth
	s.ReplyQueueBytes = c.ReplyQueueBytes
	s.ReplyStallTimeout = millis(c.ControlStreamDrainTimeoutMS)
	s.OpenTimeout = millis(c.SubscriberOpenTimeoutMS)
	s.EventBatchMaxDelay = time.Duration(c.EventBatchMaxDelayUS) * time.Microsecond
	s.MaxBytesPerWrite = c.SubscriberMaxBytesPerWrite
	s.Offsets = offsets
	s.DrainGrace = millis(c.DrainGraceMS)
	return s, nil
}

// socketConfig are the settings of the UDP socket.
func (c *Config) socketConfig() (udp.Config, error) {
	s := udp.Config{ReadBuffer: c.UDPRecvBuffer, WriteBuffer: c.UDPSendBuffer}
	for _, sw := range []struct {
		word string
		to   *udp.Switch
	}{{c.UDPGSO, &s.GSO}, {c.UDPGRO, &s.GRO}, {c.UDPSendMMsg, &s.SendMMsg}, {c.UDPRecvMMsg, &s.RecvMMsg}, {c.UDPECN, &s.ECN}} {
		var err error
		if *sw.to, err = udp.ParseSwitch(sw.word); err != nil {
			return udp.Config{}, err
		}
	}
	return s, nil
}

// transportConfig are the settings of the QUIC listener, without its identity.
func (c *Config) transportConfig(log *slog.Logger) (transport.Config, error) {
	socket, err := c.socketConfig()
	if err != nil {
		return transport.Config{}, err
	}
	socket.Notice = func(n udp.Notice) { log.Warn("UDP socket: "+n.Text, "kind", n.Kind.String()) }
	t := transport.Config{
		Socket:                socket,
		KeepAlive:             millis(c.KeepAliveMS),
		IdleTimeout:           millis(c.IdleTimeoutMS),
		HandshakeTimeout:      millis(c.HandshakeTimeoutMS),
		MaxIncomingStreams:    c.MaxIncomingStreams,
		MaxIncomingUniStreams: c.MaxIncomingUniStreams,
		StreamWindow:          transport.Window{Initial: c.StreamInitialWindow, Max: c.StreamRecvWindow},
		ConnWindow:            transport.Window{Initial: c.ConnInitialWindow, Max: c.ConnRecvWindow},
		ReceiveBudget:         c.ReceiveBudgetBytes,
		InitialPacketSize:     uint16(c.InitialMTU),
		DisablePMTUD:          !c.MTUDiscovery,
		LoopbackPacketSize:    uint16(c.LoopbackPacketSize),
		RequireALPN:           c.TLSRequireALPN,
		MaxConns:              c.MaxConnections,
		MaxHandshakes:         c.MaxHandshakes,
		RetryAbove:            c.RetryAbove,
		Logger:                log,
	}
	// For transport.Config zero is the default, and negative none.
	if c.KeepAliveMS == 0 {
		t.KeepAlive = -1
	}
	if c.RetryAbove == 0 {
		t.RetryAbove = -1
	}
	return t, nil
}
