//go:build !linux && !darwin

package platform

import "fmt"

func readUDPStats() (UDPStats, error) {
	return UDPStats{}, fmt.Errorf("udp counters: %w", ErrNotSupported)
}
