package cli

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"felix/daemon"
)

// A nameArgument is a name that the user gave, and what the command's usage
// calls it.
type nameArgument struct{ what, name string }

// checkNames refuses names that no request can carry: empty ones, those that are
// not UTF-8, and those whose length does not fit the protocol's u16.
func checkNames(op string, args ...nameArgument) error {
	for _, a := range args {
		err := checkText(a.what, a.name)
		switch {
		case err != nil:
		case a.name == "":
			err = fmt.Errorf("%s is empty", a.what)
		case len(a.name) > math.MaxUint16:
			err = fmt.Errorf("%s has %d bytes, at most %d fit a request", a.what, len(a.name), math.MaxUint16)
		}
		if err != nil {
			return opError(op, err)
		}
	}
	return nil
}

// checkText refuses a text that is not UTF-8: JSON cannot carry it.
func checkText(what, text string) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("%s is not UTF-8: %q", what, text)
	}
	return nil
}

// operation names what a command does, and to what, for an error.
func operation(command string, names ...string) string {
	for _, name := range names {
		command += " " + daemon.Quoted(name)
	}
	return command
}

// path is the full name of a stream or a cache, for people.
func path(parts ...string) string { return daemon.Quoted(strings.Join(parts, "/")) }
