package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	out := flag.String("out", "build", "`folder` for the copy and the module file")
	overrides := make(valueFlag)
	flag.Var(overrides, "set", "`name=value` of a constant, for measurements; may be repeated")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "enginegen: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := run(*out, overrides); err != nil {
		fmt.Fprintf(os.Stderr, "enginegen: %v\n", err)
		os.Exit(1)
	}
}

func run(out string, overrides valueFlag) error {
	m, err := findModules()
	if err != nil {
		return err
	}
	table, err := withOverrides(substitutions, candidates, overrides)
	if err != nil {
		return err
	}
	changed, err := generate(m, out, table)
	if err != nil {
		return err
	}
	state := "unchanged"
	if changed {
		state = "written"
	}
	fmt.Printf("%s %s, %d substitutions, %s: %s\n", engineModule, m.engine.Version, len(table), state, out)
	return nil
}

// valueFlag collects name=value pairs.
type valueFlag map[string]string

func (f valueFlag) String() string { return "" }

func (f valueFlag) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" || value == "" {
		return fmt.Errorf("want name=value")
	}
	f[name] = value
	return nil
}
