//go:build !linux && !darwin && !freebsd

package platform

import "fmt"

func openFileLimit() (Limit, error) {
	return Limit{}, fmt.Errorf("limit of open files: %w", ErrNotSupported)
}

func lockedMemoryLimit() (Limit, error) {
	return Limit{}, fmt.Errorf("limit of locked memory: %w", ErrNotSupported)
}
