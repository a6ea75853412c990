package main

// engineModule and engineVersion are what the table was written for.
const (
	engineModule  = "github.com/quic-go/quic-go"
	engineVersion = "v0.65.0"
)

// substitution replaces one text in one file of the module. The stock text must be there exactly once.
type substitution struct {
	Name        string // the constant or function changed
	File        string // slash-separated, from the module's root
	Stock       string
	Tuned       string
	Reason      string
	Measurement string // where the effect is recorded
}

// fileSums are the SHA-256 sums of the files that the table changes, as published.
var fileSums = map[string]string{
	"internal/protocol/protocol.go": "a8da00928e939f35f4ddefb5cfd57f6e2b57f767cd41abea8f75bf73282ee886",
	"internal/protocol/params.go":   "559b10f63a51332b7720a75f249629bc7173b2b5ff220cd654ccbe5049c4f3b5",
	"connection.go":                 "8b81ef81d9ddd638fd61cb53c3d3693c5ed83e93f5826cb934673b7d1c1ed6bc",
}

// substitutions is the tuning.
var substitutions = []substitution{
	{
		Name:  "MaxPacketBufferSize",
		File:  "internal/protocol/protocol.go",
		Stock: "const MaxPacketBufferSize = 1452",
		Tuned: "const MaxPacketBufferSize = 8952",
		Reason: "The largest packet sent and received. The cost of a packet hardly depends on its size, and 8952 " +
			"bytes fit a link with an MTU of 9000 as well as loopback. At most 16383: STREAM frames have two bytes " +
			"for their length.",
		Measurement: "docs/tuning.md, packet ceiling",
	},
	{
		Name:  "MaxLargePacketBufferSize",
		File:  "internal/protocol/protocol.go",
		Stock: "const MaxLargePacketBufferSize = 20 * 1024",
		Tuned: "const MaxLargePacketBufferSize = 65507 / MaxPacketBufferSize * MaxPacketBufferSize",
		Reason: "The buffer of one segmented send: as many full packets as fit one IPv4 datagram (65507 bytes of " +
			"payload), instead of two. With packets of 1200 bytes it holds 52, within the 64 segments of old kernels.",
		Measurement: "docs/tuning.md, packet ceiling",
	},
	{
		Name:  "MinStreamFrameBufferSize",
		File:  "internal/protocol/params.go",
		Stock: "const MinStreamFrameBufferSize = 128",
		Tuned: "const MinStreamFrameBufferSize = MaxPacketBufferSize / 8",
		Reason: "A received STREAM frame of at least this size is kept in a buffer of the packet ceiling until it is " +
			"read. Growing with the ceiling, it keeps what a peer can pin at 8 times its flow-control window " +
			"(11 times in the stock engine; 70 times with the stock value and the tuned ceiling).",
		Measurement: "docs/tuning.md, packet ceiling",
	},
	{
		Name:  "maxPacketSize",
		File:  "connection.go",
		Stock: "\tif c.perspective == protocol.PerspectiveServer && c.peerParams == nil {\n",
		Tuned: "\tif !c.handshakeConfirmed {\n",
		Reason: "Packets of the handshake have 1200 bytes on both sides. The limit of the peer is not known before, " +
			"an engine with a lower ceiling could not read larger ones, the server must not send more than " +
			"three times what it got to an address that is not validated, and the two-byte length field of long " +
			"headers ends at 16383.",
		Measurement: "transport: TestEnginesMix",
	},
	{
		Name: "applyTransportParameters",
		File: "connection.go",
		Stock: "\tif c.mtuDiscoverer != nil {\n" +
			"\t\tc.mtuDiscoverer = newMTUDiscoverer(c.rttStats, c.mtuDiscoverer.CurrentSize(), c.maxMTU(), c.qlogger)\n" +
			"\t}\n",
		Tuned: "\tstartSize := c.config.initialPacketSize()\n" +
			"\tif c.mtuDiscoverer != nil {\n" +
			"\t\tstartSize = c.mtuDiscoverer.CurrentSize()\n" +
			"\t}\n" +
			"\tc.mtuDiscoverer = newMTUDiscoverer(c.rttStats, min(startSize, c.maxMTU()), c.maxMTU(), c.qlogger)\n",
		Reason: "The first packet size after the handshake respects the peer's max_udp_payload_size, which the stock " +
			"engine checks only in its search for larger sizes.",
		Measurement: "transport: TestEnginesMix",
	},
	{
		Name: "switchToPath",
		File: "connection.go",
		Stock: "\tinitialPacketSize := protocol.ByteCount(cmp.Or(c.config.InitialPacketSize, protocol.MinInitialPacketSize))\n" +
			"\tc.sentPacketHandler.MigratedPath(p.rcvTime, initialPacketSize)\n",
		Tuned: "\tinitialPacketSize := min(protocol.ByteCount(cmp.Or(c.config.InitialPacketSize, protocol.MinInitialPacketSize)), c.maxMTU())\n" +
			"\tc.sentPacketHandler.MigratedPath(p.rcvTime, initialPacketSize)\n",
		Reason:      "The same after a client has changed its address.",
		Measurement: "transport: TestEnginesMix",
	},
	{
		Name:  "MaxAcceptQueueSize",
		File:  "internal/protocol/params.go",
		Stock: "const MaxAcceptQueueSize = 32",
		Tuned: "const MaxAcceptQueueSize = 1024",
		Reason: "Connections whose handshake is complete wait here for the listener, and are refused when it is full. " +
			"On a busy host a burst of clients fills 32 places before the listener gets to run.",
		Measurement: "transport: TestManyAtOnce",
	},
	{
		Name: "MinStatelessResetSize",
		File: "internal/protocol/protocol.go",
		Stock: "const MinStatelessResetSize = 1 /* first byte */ + 20 /* max. conn ID length */ + " +
			"4 /* max. packet number length */ + 1 /* min. payload length */ + 16 /* token */",
		Tuned: "const MinStatelessResetSize = 24",
		Reason: "A restarted server answers only packets larger than this with a stateless reset. A keep-alive has 29 " +
			"bytes, so clients without traffic would wait out their idle timeout. RFC 9000, 10.3 asks for a reset of " +
			"at least 21 bytes that is smaller than the packet it answers.",
		Measurement: "transport: TestRestartIsNoticedWhenQuiet",
	},
}

// candidates are substitutions that no measurement has justified; they are applied only when -set names them.
var candidates = []substitution{
	{Name: "batchSize", File: "sys_conn_helper_linux.go", Stock: "const batchSize = 8 //", Reason: "Datagrams asked for in one receive call."},
	{Name: "packetsBeforeAck", File: "internal/ackhandler/received_packet_tracker.go", Stock: "const packetsBeforeAck = 2\n", Reason: "Packets received until an acknowledgement is due."},
	{Name: "MaxConnUnprocessedPackets", File: "internal/protocol/params.go", Stock: "const MaxConnUnprocessedPackets = 256\n", Reason: "Received packets that wait for their connection."},
	{Name: "sendQueueCapacity", File: "send_queue.go", Stock: "const sendQueueCapacity = 8\n", Reason: "Sends that wait for the socket."},
}
