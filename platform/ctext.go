package platform

import "strconv"

func itoa(n int) string { return strconv.Itoa(n) }

// cText takes a NUL-terminated printable string out of raw; ok is false if raw
// is not one, as with a binary number.
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
