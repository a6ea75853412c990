// Command docgen writes the reference pages of docs/ that follow from the
// programs: settings, commands and metrics. Run it with go generate ./daemon.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// pages are the files that docgen writes, below docs/.
var pages = map[string]func(context.Context, io.Writer) error{
	"configuration.md": writeConfiguration,
	"cli.md":           writeCommands,
	"metrics.md":       writeMetrics,
}

func main() {
	dir := flag.String("dir", "docs", "folder to write to")
	flag.Parse()
	if err := run(context.Background(), *dir); err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string) error {
	for name, write := range pages {
		text, err := render(ctx, write)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func render(ctx context.Context, write func(context.Context, io.Writer) error) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("<!-- Written by internal/docgen. Change the program and run make generate. -->\n\n")
	err := write(ctx, &b)
	return b.Bytes(), err
}
