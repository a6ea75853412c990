//go:build !linux && !darwin

package platform

import "fmt"

func pinThread(int) (func(), error) {
	return nil, fmt.Errorf("pin thread: %w", ErrNotSupported)
}
