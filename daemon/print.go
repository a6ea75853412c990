package daemon

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// WriteConfig writes the effective settings as a configuration file: every
// setting with what it means, its limits and where its value came from. Read
// back, it gives the same Config.
func (l *Loaded) WriteConfig(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString("# Effective settings of felixd. This is a valid configuration file.\n")
	group := ""
	for _, s := range Settings() {
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(&b, "\n# ---- %s ----\n", group)
		}
		b.WriteString("\n")
		writeComment(&b, s.Doc+limits(s))
		writeComment(&b, "Source: "+l.source(s.Key)+".")
		value, err := yaml.Marshal(map[string]any{s.Key: l.Config.field(s).Interface()})
		if err != nil {
			return fmt.Errorf("print %s: %w", s.Key, err)
		}
		b.Write(value)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// source says where the value of a setting came from.
func (l *Loaded) source(key string) string {
	if where, ok := l.Sources[key]; ok {
		return where
	}
	if l.Config.Dev {
		return "default of development mode"
	}
	return "default"
}

// limits says in words which values a setting takes.
func limits(s Setting) string {
	switch {
	case s.OneOf != nil:
		return " One of: " + strings.Join(s.OneOf, ", ") + "."
	case s.Max > 0:
		return fmt.Sprintf(" Range: %d to %d%s.", s.Min, s.Max, withSpace(s.Unit))
	}
	return ""
}

const commentWidth = 98 // columns of text after "# "

func writeComment(b *bytes.Buffer, text string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > commentWidth {
			fmt.Fprintf(b, "# %s\n", line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	fmt.Fprintf(b, "# %s\n", line)
}
