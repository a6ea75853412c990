package daemon

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// OneLine puts the text of an error on one line that a terminal can show:
// every run of white space becomes a space, and what is not printable an escape
// sequence as in Go.
func OneLine(err error) string {
	return Printable(strings.Join(strings.Fields(err.Error()), " "))
}

// Printable returns s with everything that is not printable (control
// characters, invisible marks that turn the direction of writing, bytes that
// are not UTF-8) replaced by an escape sequence as in Go.
func Printable(s string) string {
	if strings.IndexFunc(s, unprintable) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if unprintable(r) || r == utf8.RuneError && n == 1 {
			quoted := strconv.Quote(s[:n])
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// Quoted returns s if it is printable, and in quotes with escape sequences
// otherwise, so that two texts that differ never look the same.
func Quoted(s string) string {
	if q := strconv.Quote(s); q != `"`+s+`"` {
		return q
	}
	return s
}
