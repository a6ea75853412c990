package hostcheck

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteTable writes the report for people: a table of all findings, what to
// change, and the file that keeps the settings.
func (r Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s, %s, %d processors\n\n", r.Facts.Kernel, r.Facts.Arch, orUnknown(r.Facts.CPU.Model), r.Facts.CPU.Usable())
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, f := range r.Findings {
		fmt.Fprintf(t, "%s\t%s\t%s\n", f.Severity, f.Title, f.Evidence)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	r.writeRemedies(&b)
	if r.DropIn != nil {
		fmt.Fprintf(&b, "\nto keep the settings, %s:\n", r.DropIn.Path)
		indent(&b, r.DropIn.Content)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r Report) writeRemedies(b *strings.Builder) {
	for _, f := range r.Findings {
		if f.Severity == OK || f.Why == "" && f.Remedy == nil {
			continue // the table has said it all
		}
		fmt.Fprintf(b, "\n%s: %s\n", f.Severity, f.Title)
		if f.Why != "" {
			fmt.Fprintf(b, "  %s\n", f.Why)
		}
		if f.Remedy == nil {
			continue
		}
		fmt.Fprintf(b, "  what to do: %s\n", f.Remedy.Text)
		for _, c := range f.Remedy.Commands {
			fmt.Fprintf(b, "    %s\n", c)
		}
	}
}

func indent(b *strings.Builder, text string) {
	for line := range strings.Lines(text) {
		b.WriteString("    " + line)
	}
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown processor"
	}
	return s
}
