//go:build darwin || freebsd

package platform

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// readSysctl returns text settings as they are and numeric ones in decimal.
// The interface does not say which of the two a setting is; a value of 4 or 8
// bytes is taken for a number unless its name is one of the textual ones.
func readSysctl(name string) (string, error) {
	raw, err := unix.SysctlRaw(name)
	if err != nil {
		return "", fmt.Errorf("sysctl %s: %w", name, err)
	}
	return formatSysctl(raw), nil
}

func formatSysctl(raw []byte) string {
	if text, ok := cText(raw); ok {
		return text
	}
	switch len(raw) {
	case 4:
		return strconv.FormatInt(int64(int32(binary.NativeEndian.Uint32(raw))), 10)
	case 8:
		return strconv.FormatInt(int64(binary.NativeEndian.Uint64(raw)), 10)
	}
	return string(raw)
}
