package platform

// OffloadState is one feature switch of a network interface.
type OffloadState struct {
	// Active: in force now.
	Active bool `json:"active"`
	// Available: the device can do it, whether or not it is on.
	Available bool `json:"available"`
	// Fixed: it cannot be changed.
	Fixed bool `json:"fixed"`
}

// Offloads are an interface's feature switches by the kernel's names
// ("tx-udp-segmentation", "rx-gro", "tx-checksum-ip-generic", ...).
type Offloads map[string]OffloadState

// Names of the switches that matter for UDP.
const (
	// OffloadUDPSegment: the device cuts segmented sends itself; without it
	// the kernel does just before the driver.
	OffloadUDPSegment = "tx-udp-segmentation"
	// OffloadGSO: the kernel may delay cutting; without it UDP_SEGMENT still
	// works, cut earlier.
	OffloadGSO = "tx-generic-segmentation"
	// OffloadGRO: the kernel merges received packets; UDP_GRO needs it.
	OffloadGRO = "rx-gro"
	// OffloadGROForward: merges UDP packets also where the socket has not
	// asked for it.
	OffloadGROForward = "rx-udp-gro-forwarding"
)

// Active reports one switch: Yes or No if the interface has it, else Unknown.
func (o Offloads) Active(name string) Answer {
	s, ok := o[name]
	if !ok {
		return Unknown
	}
	return AnswerOf(s.Active)
}

// InterfaceOffloads reads the switches of an interface through the ethtool
// ioctl; no rights are needed. Linux only, elsewhere [ErrNotSupported].
func InterfaceOffloads(name string) (Offloads, error) { return interfaceOffloads(name) }
