package quicprobe

import (
	"time"

	"felix/daemon"
	"felix/platform"
	"felix/transport"
	"felix/udp"
)

// Roles of the processes, which are the names of their hidden subcommands too.
const (
	roleSender     = "sender"
	roleReceiver   = "receiver"
	rolePublisher  = "publisher"
	roleRelay      = "relay"
	roleSubscriber = "subscriber"
)

// neighbour is the role at the other end of all connections; a relay has two.
var neighbour = map[string]string{
	roleSender: roleReceiver, roleReceiver: roleSender, rolePublisher: roleRelay, roleSubscriber: roleRelay,
}

// spec is what a process is told when it is started.
type spec struct {
	Options  Options `json:"options"`
	Role     string  `json:"role"`
	Addr     string  `json:"addr"`        // to connect to
	Cert     []byte  `json:"certificate"` // of the process there, DER
	Progress bool    `json:"progress"`    // tell how much has arrived now and then
}

// Commands that a process gets on its standard input.
const (
	doStart  = "start"  // all are connected: begin
	doReport = "report" // all have finished: tell and end
)

type command struct {
	Do string `json:"do"`
}

// message is what a process prints: one of the fields.
type message struct {
	Ready    *ready   `json:"ready,omitempty"`          // connected, or listening
	Progress *int64   `json:"progress_bytes,omitempty"` // arrived so far
	Done     *done    `json:"done,omitempty"`           // its part of the work is finished
	Side     *side    `json:"side,omitempty"`           // the figures of the process
	Failure  *failure `json:"failure,omitempty"`        // the last word
}

// ready is the first message.
type ready struct {
	Addr  string           `json:"addr,omitempty"`
	Cert  []byte           `json:"certificate,omitempty"`
	Dial  time.Duration    `json:"dial_ns"` // of the slowest connection
	Build daemon.BuildInfo `json:"build"`
}

// done is what came of the work; which fields count depends on the role.
type done struct {
	Payload int64         `json:"payload_bytes"`
	Frames  int64         `json:"frames"`
	Elapsed time.Duration `json:"elapsed_ns"` // from the first bytes to the last
	Stall   time.Duration `json:"stall_ns"`   // longest time without progress

	Delivery  *Percentiles `json:"delivery,omitempty"`
	RoundTrip *Percentiles `json:"round_trip,omitempty"`
}

// side describes a process that has finished.
type side struct {
	PID          int               `json:"pid"`
	Width        int               `json:"width"`
	Usage        platform.Usage    `json:"usage"`
	Granted      udp.Buffers       `json:"granted"`
	Capabilities udp.Capabilities  `json:"capabilities"`
	Counters     map[string]uint64 `json:"counters"`
	Conns        []connSide        `json:"connections"`
}

// connSide describes one end of a connection.
type connSide struct {
	Peer  string              `json:"peer"`
	Stats transport.ConnStats `json:"stats"`
}

// failure ends a process.
type failure struct {
	Text string `json:"text"`
	// Consequence: the process only noticed that another one was gone.
	Consequence bool `json:"consequence"`
}
