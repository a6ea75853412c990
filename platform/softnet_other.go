//go:build !linux

package platform

import "fmt"

func readSoftnet() (SoftnetStats, error) {
	return SoftnetStats{}, fmt.Errorf("softnet counters: %w", ErrNotSupported)
}
