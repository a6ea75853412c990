package daemon

import (
	"errors"
	"testing"
)

func TestPrintable(t *testing.T) {
	for _, c := range []struct{ in, printable, quoted string }{
		{"", "", ""},
		{"orders/2 ü世", "orders/2 ü世", "orders/2 ü世"},
		{"\x1b[31mred", `\x1b[31mred`, `"\x1b[31mred"`},
		{"a\nb\tc", `a\nb\tc`, `"a\nb\tc"`},
		{"\u009b31m", `\u009b31m`, `"\u009b31m"`},
		{"abc\u202edcba", `abc\u202edcba`, `"abc\u202edcba"`},
		{"\xff\x00\x7f", `\xff\x00\x7f`, `"\xff\x00\x7f"`},
		{"\ufffd", "\ufffd", "\ufffd"},
		{`a\nb`, `a\nb`, `"a\\nb"`}, // is not what it would be taken for
		{`"a"`, `"a"`, `"\"a\""`},
	} {
		if got := Printable(c.in); got != c.printable {
			t.Errorf("Printable(%q) = %s, want %s", c.in, got, c.printable)
		}
		if got := Quoted(c.in); got != c.quoted {
			t.Errorf("Quoted(%q) = %s, want %s", c.in, got, c.quoted)
		}
	}
	if got, want := OneLine(errors.New("a\n b: \x1b[2J")), `a b: \x1b[2J`; got != want {
		t.Errorf("OneLine = %s, want %s", got, want)
	}
}
