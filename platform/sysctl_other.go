//go:build !linux && !darwin && !freebsd

package platform

import "fmt"

func readSysctl(name string) (string, error) {
	return "", fmt.Errorf("sysctl %s: %w", name, ErrNotSupported)
}
