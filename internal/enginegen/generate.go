package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Names below the output folder.
const (
	copyName    = "quic-go-tuned"
	modFileName = "tuned.mod"
	sumFileName = "tuned.sum"
)

// generate writes the tuned copy and the module file that uses it, and reports whether anything was different before.
func generate(m modules, out string, table []substitution) (changed bool, err error) {
	if m.engine.Version != engineVersion {
		return false, fmt.Errorf("go.mod pins %s %s, the table was written for %s: review it", engineModule, m.engine.Version, engineVersion)
	}
	tree, err := readModule(m.engine.Dir)
	if err != nil {
		return false, err
	}
	if err := substitute(tree, table); err != nil {
		return false, err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return false, err
	}
	copied, err := writeTree(filepath.Join(out, copyName), tree)
	if err != nil {
		return false, err
	}
	files, err := moduleFiles(m, out)
	if err != nil {
		return false, err
	}
	for name, text := range files {
		written, err := writeIfDifferent(filepath.Join(out, name), text)
		if err != nil {
			return false, err
		}
		copied = copied || written
	}
	return copied, nil
}

// skipped are the folders of the module that programs do not need.
var skipped = map[string]bool{"integrationtests": true, "interop": true, "example": true, "assets": true, "fuzzing": true}

// readModule reads the files of a module that a build needs, and its licence.
func readModule(dir string) (map[string][]byte, error) {
	tree := make(map[string][]byte)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if skipped[d.Name()] || strings.HasPrefix(d.Name(), ".") && rel != "." {
				return filepath.SkipDir
			}
			return nil
		}
		if !wanted(rel) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		tree[filepath.ToSlash(rel)] = text
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the module: %w", err)
	}
	return tree, nil
}

func wanted(rel string) bool {
	name := filepath.Base(rel)
	if name == "LICENSE" || rel == "go.mod" || rel == "go.sum" {
		return true
	}
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
}

// substitute applies the table to the files. All problems are reported, not only the first.
func substitute(tree map[string][]byte, table []substitution) error {
	var problems []error
	for name, want := range fileSums {
		sum := sha256.Sum256(tree[name])
		if got := hex.EncodeToString(sum[:]); got != want {
			problems = append(problems, fmt.Errorf("%s: SHA-256 is %s, the table was written for %s", name, got, want))
		}
	}
	for _, s := range table {
		text, ok := tree[s.File]
		if !ok {
			problems = append(problems, fmt.Errorf("%s: no file %s", s.Name, s.File))
			continue
		}
		if n := bytes.Count(text, []byte(s.Stock)); n != 1 {
			problems = append(problems, fmt.Errorf("%s: stock text is %d times in %s, want once: %q", s.Name, n, s.File, s.Stock))
			continue
		}
		tree[s.File] = bytes.Replace(text, []byte(s.Stock), []byte(s.Tuned), 1)
	}
	return errors.Join(problems...)
}

// withOverrides returns the table with the values of some constants changed, and the candidates that are given one.
func withOverrides(table, candidates []substitution, values map[string]string) ([]substitution, error) {
	out := append([]substitution(nil), table...)
	for name, value := range values {
		tuned, i := "", 0
		for i = range out {
			if out[i].Name == name {
				tuned = constant(out[i].Stock, value)
				break
			}
		}
		if tuned != "" {
			out[i].Tuned = tuned
			continue
		}
		for _, c := range candidates {
			if c.Name == name {
				c.Tuned = constant(c.Stock, value)
				tuned = c.Tuned
				out = append(out, c)
			}
		}
		if tuned == "" {
			return nil, fmt.Errorf("-set %s: no such constant", name)
		}
	}
	return out, nil
}

// constant puts a value into the text of a constant's declaration, "" if it is none.
func constant(stock, value string) string {
	head, tail, ok := strings.Cut(stock, " = ")
	if !ok || !strings.HasPrefix(head, "const ") {
		return ""
	}
	switch {
	case strings.HasSuffix(tail, " //"):
		value += " //"
	case strings.HasSuffix(tail, "\n"):
		value += "\n"
	}
	return head + " = " + value
}

// moduleFiles returns the module file that uses the copy, and its sums.
func moduleFiles(m modules, out string) (map[string][]byte, error) {
	mod, err := os.ReadFile(filepath.Join(m.root, "go.mod"))
	if err != nil {
		return nil, err
	}
	sum, err := os.ReadFile(filepath.Join(m.root, "go.sum"))
	if err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(filepath.Join(out, copyName))
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(m.root, abs) // the go command takes it from the folder of go.mod
	if err != nil {
		return nil, err
	}
	mod = fmt.Appendf(mod, "\nreplace %s %s => ./%s\n", engineModule, m.engine.Version, filepath.ToSlash(rel))
	return map[string][]byte{modFileName: mod, sumFileName: sum}, nil
}
