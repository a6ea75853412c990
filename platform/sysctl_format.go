package platform

import (
	"encoding/binary"
	"strconv"
)

// formatSysctl turns the raw value of a BSD sysctl into text. The interface
// does not say of which type a setting is: a printable string that ends in NUL
// is text, 4 or 8 bytes otherwise are a signed number, and anything else is
// returned as it is.
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

// cText takes a NUL-terminated printable string out of raw. A small number in
// little-endian order has zero bytes before its last and so is not one; a lone
// NUL is the empty string.
func cText(raw []byte) (text string, ok bool) {
	n := len(raw)
	if n == 0 {
		return "", true
	}
	if raw[n-1] != 0 {
		return "", false
	}
	for _, b := range raw[:n-1] {
		if b < ' ' || b > '~' {
			return "", false
		}
	}
	return string(raw[:n-1]), true
}
