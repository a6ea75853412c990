//go:build !unix

package platform

import "fmt"

func processUsage() (Usage, error) {
	return Usage{}, fmt.Errorf("process usage: %w", ErrNotSupported)
}
