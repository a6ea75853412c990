//go:build !linux

package platform

import "fmt"

func interfaceOffloads(name string) (Offloads, error) {
	return nil, fmt.Errorf("offloads of %s: %w", name, ErrNotSupported)
}
