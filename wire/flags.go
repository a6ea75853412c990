package wire

// Flags is the header field that says which layout the payload has. No flag
// means a JSON message.
type Flags uint16

// The flags of the protocol. FlagPublishAcked and FlagKeyed modify
// FlagPublishBatch, FlagEventOffsets modifies the two event batches.
const (
	FlagPublishBatch     Flags = 0x0001 // client to broker: publish batch
	FlagEventBatch       Flags = 0x0002 // broker to client: events with a subscription id
	FlagEventBatchShared Flags = 0x0004 // broker to client: events without a subscription id
	FlagPublishAcked     Flags = 0x0008 // a request id and an ack mode come first, an ack is owed
	FlagPublishAck       Flags = 0x0010 // broker to client: publish ack
	FlagEventOffsets     Flags = 0x0020 // a base offset is present
	FlagKeyed            Flags = 0x0040 // a key comes before the publish body

	// KnownFlags is what this side advertises in auth and auth_ok.
	KnownFlags Flags = 0x003F
	// LegacyFlags is what a peer that advertised nothing is taken to know.
	LegacyFlags Flags = 0x0007
	// DecodableFlags is what a broker accepts: published clients send FlagKeyed
	// without having been offered it.
	DecodableFlags = KnownFlags | FlagKeyed
)

const (
	publishLayout = FlagPublishBatch | FlagPublishAcked | FlagKeyed
	ownedLayout   = FlagEventBatch | FlagEventOffsets
	sharedLayout  = FlagEventBatchShared | FlagEventOffsets
)

// Has reports whether all of bits are set.
func (f Flags) Has(bits Flags) bool { return f&bits == bits }

// Unknown returns the bits no decoder of this package knows; FlagKeyed is one of
// them except on a publish batch. A frame that has any must be refused as a
// whole, for each bit changes the layout.
func (f Flags) Unknown() Flags {
	if f.Has(FlagPublishBatch) {
		return f &^ DecodableFlags
	}
	return f &^ KnownFlags
}
