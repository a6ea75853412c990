package udp

// ECN is the codepoint of RFC 3168 section 5, the two low bits of the IPv4 TOS
// or IPv6 traffic class.
type ECN uint8

// The four codepoints.
const (
	NotECT ECN = 0b00 // not ECN-capable
	ECT1   ECN = 0b01
	ECT0   ECN = 0b10
	CE     ECN = 0b11 // congestion experienced
)

const ecnMask = 0b11

// received is what the control data of a received message says.
type received struct {
	kept     []byte // what the caller gets to see of it
	stride   int    // segment size of a coalesced message, 0 for a single datagram
	drops    uint32 // messages dropped at the socket so far, if hasDrops
	hasDrops bool
}

// controlKind is what a control message means to this package.
type controlKind uint8

const (
	otherControl  controlKind = iota
	ecnControl                // ECN bits, either direction
	strideControl             // segment size of a received message
	dropsControl              // count of dropped messages
	segmentSize               // segment size of a message to send
)
