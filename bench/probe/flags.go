package probe

import (
	"encoding/json"
	"io"
	"os"

	"golang.org/x/term"

	"felix/udp"
)

// SwitchFlag makes a [udp.Switch] a command-line flag.
type SwitchFlag udp.Switch

// String returns on, off or auto.
func (s *SwitchFlag) String() string { return udp.Switch(*s).String() }

// Set takes on, off or auto.
func (s *SwitchFlag) Set(text string) error { return (*udp.Switch)(s).UnmarshalText([]byte(text)) }

// Type names the kind of value in a command's help.
func (s *SwitchFlag) Type() string { return "switch" }

// Terminal returns w if it is a terminal, else nil.
func Terminal(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// WriteJSON writes one indented object.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
