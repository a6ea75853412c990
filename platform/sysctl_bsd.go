//go:build darwin || freebsd

package platform

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func readSysctl(name string) (string, error) {
	raw, err := unix.SysctlRaw(name)
	if err != nil {
		return "", fmt.Errorf("sysctl %s: %w", name, err)
	}
	return formatSysctl(raw), nil
}
