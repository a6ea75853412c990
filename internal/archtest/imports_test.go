package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowed lists, per folder, the folders of this module that its non-test code
// may import. A key also covers the folders below it unless they have their own
// entry; a folder may always import what lies below it.
var allowed = map[string][]string{
	"cmd":                {"daemon", "internal/cli"},
	"internal/cli":       {"daemon", "client", "bench", "internal/hostcheck", "transport", "udp", "platform", "wire", "broker/auth"},
	"daemon":             {"broker", "transport", "udp", "bpf", "systemd", "platform", "wire"},
	"client":             {"transport", "wire"},
	"bench":              {"client", "daemon", "wire", "udp", "transport", "platform"},
	"transport":          {"udp", "platform", "wire"},
	"broker":             {"wire"},
	"udp":                {"platform"},
	"bpf":                {"platform"},
	"internal/hostcheck": {"udp", "platform"},
	"wire":               {},
	"platform":           {},
	"systemd":            {},
	"docs":               {},
	"internal/archtest":  {},
	"internal/enginegen": {},
	"internal/interop":   {},
	"internal/e2e":       {},
	"internal/testkit":   {},
	"internal/docgen":    {"daemon", "udp", "internal/cli"},
}

// only lists outside modules that a single folder may import.
var only = map[string]string{
	"github.com/quic-go/quic-go": "transport",
	"golang.org/x/net/ipv4":      "udp",
	"golang.org/x/net/ipv6":      "udp",
	"github.com/cilium/ebpf":     "bpf",
}

// topFolders are the folders that may stand at the top of the tree.
var topFolders = []string{
	"bench", "bpf", "broker", "client", "cmd", "daemon", "docs", "internal", "platform", "systemd", "transport", "udp", "wire",
}

// source is one parsed Go file.
type source struct {
	path string // slash-separated, from the module's root
	file *ast.File
	test bool
}

func (s source) dir() string { return filepath.ToSlash(filepath.Dir(s.path)) }

const root = "../.."

// sources parses every Go file of the module, whatever system it is for.
func sources(t *testing.T, mode parser.Mode) []source {
	t.Helper()
	var out []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path) // both are below the same root
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel == "build" || rel == "bin" || strings.HasPrefix(d.Name(), ".") && rel != "." || d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, mode)
		if err != nil {
			return err
		}
		out = append(out, source{path: rel, file: f, test: strings.HasSuffix(rel, "_test.go")})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 50 {
		t.Fatalf("found only %d Go files: the walk is broken", len(out))
	}
	return out
}

// rule returns the entry of allowed that covers dir.
func rule(dir string) (key string, ok bool) {
	for key = dir; key != "."; key = filepath.ToSlash(filepath.Dir(key)) {
		if _, ok := allowed[key]; ok {
			return key, true
		}
	}
	return "", false
}

func below(dir, parent string) bool { return dir == parent || strings.HasPrefix(dir, parent+"/") }

// violation says why a file in dir may not import path, or returns "".
func violation(dir, path string, test bool) string {
	for module, owner := range only {
		if below(path, module) && !below(dir, owner) {
			return "only " + owner + " may import " + module
		}
	}
	target, inside := strings.CutPrefix(path, "felix/")
	if !inside || test {
		return ""
	}
	key, ok := rule(dir)
	if !ok {
		return "folder has no import rule: add one to allowed"
	}
	if below(target, key) {
		return ""
	}
	if slices.ContainsFunc(allowed[key], func(a string) bool { return below(target, a) }) {
		return ""
	}
	return key + " may import " + strings.Join(allowed[key], ", ") + " only"
}

func TestImportsRunOneWay(t *testing.T) {
	for _, s := range sources(t, parser.ImportsOnly) {
		for _, imp := range s.file.Imports {
			path, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if why := violation(s.dir(), path, s.test); why != "" {
				t.Errorf("%s imports %s: %s", s.path, path, why)
			}
		}
	}
}

func TestRulesCatchViolations(t *testing.T) {
	for _, c := range []struct {
		dir, path string
		test      bool
		bad       bool
	}{
		{"broker", "felix/transport", false, true},
		{"broker/session", "felix/broker", false, false},
		{"broker", "felix/wire", false, false},
		{"client", "github.com/quic-go/quic-go", false, true},
		{"client", "github.com/quic-go/quic-go", true, true},
		{"transport", "github.com/quic-go/quic-go/qlog", false, false},
		{"udp", "golang.org/x/net/ipv4", false, false},
		{"wire", "felix/platform", false, true},
		{"wire", "felix/internal/testkit", true, false},
		{"unknown", "felix/wire", false, true},
	} {
		if got := violation(c.dir, c.path, c.test); (got != "") != c.bad {
			t.Errorf("violation(%q, %q, test=%v) = %q, want bad=%v", c.dir, c.path, c.test, got, c.bad)
		}
	}
}
