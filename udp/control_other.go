//go:build !linux && !darwin && !freebsd

package udp

import "net/netip"

// Control data has no meaning here and is neither read nor written.

func receivedControl([]byte, bool) (received, error) { return received{}, nil }

func copyControl([]byte, []byte) (n, flags int) { return 0, 0 }

func sendControl(dst, oob []byte, withECN bool) (kept []byte, segment int, err error) {
	return dst, 0, nil
}

// AppendECN returns oob: this system is not asked to mark datagrams.
func AppendECN(oob []byte, to netip.Addr, e ECN) []byte { return oob }

// AppendSegmentSize returns oob: this system does not segment.
func AppendSegmentSize(oob []byte, size uint16) []byte { return oob }

// ParseECN returns false: this system does not tell.
func ParseECN(oob []byte) (ECN, bool) { return 0, false }
