package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"text/tabwriter"

	"golang.org/x/term"

	"felix/daemon"
)

// printf writes to standard output.
func (a *app) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(a.io.Out, format, args...)
	return outputError(err)
}

// writeJSON writes v as one line of JSON.
func (a *app) writeJSON(v any) error { return outputError(json.NewEncoder(a.io.Out).Encode(v)) }

// table writes rows with aligned columns; the first row is the heading. What a
// terminal would obey instead of showing it is quoted.
func (a *app) table(rows [][]string) error {
	w := tabwriter.NewWriter(a.io.Out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, daemon.Quoted(cell))
		}
		fmt.Fprintln(w)
	}
	return outputError(w.Flush())
}

// outputError turns a closed pipe into a quiet end.
func outputError(err error) error {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, fs.ErrClosed) {
		return errQuiet
	}
	return opError("write output", err)
}

// isTerminal reports whether w is a terminal somebody may be looking at.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
