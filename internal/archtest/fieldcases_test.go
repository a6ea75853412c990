package archtest

import (
	"go/ast"
	"go/parser"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFieldCasesNameRealTests keeps docs/field-cases.md true: every test it
// names exists in the package it names.
func TestFieldCasesNameRealTests(t *testing.T) {
	exists := map[string]bool{}
	for _, s := range sources(t, parser.SkipObjectResolution) {
		if !s.test {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				exists[path.Base(s.dir())+"."+f.Name.Name] = true
			}
		}
	}
	python, err := os.ReadFile(filepath.Join(root, "internal/interop/test_python_client.py"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs/field-cases.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z0-9]+\\.Test[A-Za-z0-9]+|test_[a-z0-9_]+)`").FindAllStringSubmatch(string(text), -1)
	if len(named) < 40 {
		t.Fatalf("only %d tests named: the pattern is broken", len(named))
	}
	for _, m := range named {
		if strings.HasPrefix(m[1], "test_") {
			if !strings.Contains(string(python), "def "+m[1]+"(") {
				t.Errorf("docs/field-cases.md names %s, which the interop tests do not have", m[1])
			}
		} else if !exists[m[1]] {
			t.Errorf("docs/field-cases.md names %s, which does not exist", m[1])
		}
	}
}
