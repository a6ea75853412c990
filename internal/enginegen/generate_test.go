package main

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// fakeModule lays out a module with the files that the table changes, each holding its stock texts, and makes the
// sums of the table those of the fake files.
func fakeModule(t *testing.T) modules {
	t.Helper()
	root := t.TempDir()
	m := modules{root: filepath.Join(root, "main"), engine: module{Path: engineModule, Version: engineVersion, Dir: filepath.Join(root, "engine")}}
	files := map[string]string{
		"engine/go.mod":                    "module " + engineModule + "\n",
		"engine/LICENSE":                   "licence\n",
		"engine/README.md":                 "not needed\n",
		"engine/other.go":                  "package quic\n",
		"engine/other_test.go":             "package quic\n",
		"engine/integrationtests/a/a.go":   "package a\n",
		"engine/internal/protocol/ecn.go":  "package protocol\n",
		"engine/.github/workflows/tool.go": "package tool\n",
		"main/go.mod":                      "module felix\n",
		"main/go.sum":                      "sums\n",
	}
	for _, s := range substitutions {
		files["engine/"+s.File] += "// begin\n" + s.Stock + "// end\n"
	}
	for name, text := range files {
		write(t, filepath.Join(root, name), text)
	}
	old := maps.Clone(fileSums)
	t.Cleanup(func() { fileSums = old })
	fileSums = make(map[string]string)
	for name := range old {
		text := files["engine/"+name]
		sum := sha256.Sum256([]byte(text))
		fileSums[name] = hex.EncodeToString(sum[:])
	}
	return m
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// files lists the files below a folder.
func files(t *testing.T, dir string) []string {
	t.Helper()
	tree, err := filepath.Glob(dir)
	if err != nil || len(tree) != 1 {
		t.Fatalf("%s: %v, %v", dir, tree, err)
	}
	var names []string
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path) // both are below the same root
			names = append(names, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func TestGenerate(t *testing.T) {
	m := fakeModule(t)
	out := filepath.Join(m.root, "build")
	changed, err := generate(m, out, substitutions)
	if err != nil || !changed {
		t.Fatalf("first run: changed %v, %v", changed, err)
	}
	want := []string{"LICENSE", "go.mod", "internal/protocol/ecn.go", "other.go"}
	for name := range fileSums {
		want = append(want, name)
	}
	slices.Sort(want)
	if got := files(t, filepath.Join(out, copyName)); !slices.Equal(got, want) {
		t.Errorf("copied %q, want %q", got, want)
	}
	for _, s := range substitutions {
		text := read(t, filepath.Join(out, copyName, s.File))
		if strings.Contains(text, s.Stock) || strings.Count(text, s.Tuned) != 1 {
			t.Errorf("%s was not replaced", s.Name)
		}
	}
	mod := read(t, filepath.Join(out, modFileName))
	line := "\nreplace " + engineModule + " " + engineVersion + " => ./build/" + copyName + "\n"
	if mod != read(t, filepath.Join(m.root, "go.mod"))+line {
		t.Errorf("module file:\n%s", mod)
	}
	if sum := read(t, filepath.Join(out, sumFileName)); sum != "sums\n" {
		t.Errorf("sums: %q", sum)
	}
}

// TestIdempotent: a second run writes nothing, and one after a change repairs what is different.
func TestIdempotent(t *testing.T) {
	m := fakeModule(t)
	out := filepath.Join(m.root, "build")
	if _, err := generate(m, out, substitutions); err != nil {
		t.Fatal(err)
	}
	stamp := time.Unix(1e9, 0)
	for _, name := range files(t, out) {
		if err := os.Chtimes(filepath.Join(out, name), stamp, stamp); err != nil {
			t.Fatal(err)
		}
	}
	if changed, err := generate(m, out, substitutions); err != nil || changed {
		t.Errorf("second run: changed %v, %v", changed, err)
	}
	for _, name := range files(t, out) {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || !info.ModTime().Equal(stamp) {
			t.Errorf("%s was written again", name)
		}
	}
	for what, change := range map[string]func(){
		"edited": func() { write(t, filepath.Join(out, copyName, "other.go"), "package other\n") },
		"extra":  func() { write(t, filepath.Join(out, copyName, "extra.go"), "package quic\n") },
		"lost":   func() { os.Remove(filepath.Join(out, copyName, "other.go")) },
		"module": func() { write(t, filepath.Join(out, modFileName), "module other\n") },
		"go.sum": func() { write(t, filepath.Join(m.root, "go.sum"), "more sums\n") },
	} {
		before := files(t, out)
		change()
		if changed, err := generate(m, out, substitutions); err != nil || !changed {
			t.Errorf("%s: changed %v, %v", what, changed, err)
		}
		if after := files(t, out); !slices.Equal(before, after) {
			t.Errorf("%s: files %q, want %q", what, after, before)
		}
		if text := read(t, filepath.Join(out, copyName, "other.go")); text != "package quic\n" {
			t.Errorf("%s: other.go is %q", what, text)
		}
	}
}

// TestDrift: whatever has changed in the module, nothing is written, and the error names it.
func TestDrift(t *testing.T) {
	const file = "internal/protocol/protocol.go"
	edit := func(from, to string) func(*testing.T, *modules) {
		return func(t *testing.T, m *modules) {
			name := filepath.Join(m.engine.Dir, file)
			text := strings.Replace(read(t, name), from, to, 1)
			write(t, name, text)
			sum := sha256.Sum256([]byte(text))
			fileSums[file] = hex.EncodeToString(sum[:])
		}
	}
	stock := substitutions[0].Stock
	for name, test := range map[string]struct {
		drift func(*testing.T, *modules)
		want  string
	}{
		"other version": {func(_ *testing.T, m *modules) { m.engine.Version = "v0.66.0" }, "pins " + engineModule + " v0.66.0"},
		"text gone":     {edit(stock, "const MaxPacketBufferSize = 1472"), "MaxPacketBufferSize: stock text is 0 times"},
		"text twice":    {edit(stock, stock+"\n"+stock), "MaxPacketBufferSize: stock text is 2 times"},
		"text around it": {func(t *testing.T, m *modules) {
			write(t, filepath.Join(m.engine.Dir, file), read(t, filepath.Join(m.engine.Dir, file))+"// more\n")
		}, file + ": SHA-256"},
		"file gone": {func(t *testing.T, m *modules) {
			if err := os.Remove(filepath.Join(m.engine.Dir, "connection.go")); err != nil {
				t.Fatal(err)
			}
		}, "no file connection.go"},
	} {
		t.Run(name, func(t *testing.T) {
			m := fakeModule(t)
			test.drift(t, &m)
			out := filepath.Join(m.root, "build")
			if _, err := generate(m, out, substitutions); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
			if _, err := os.Stat(out); !os.IsNotExist(err) {
				t.Error("something was written")
			}
		})
	}
}

func TestOverrides(t *testing.T) {
	table, err := withOverrides(substitutions, candidates, map[string]string{"MaxPacketBufferSize": "4096", "batchSize": "32", "packetsBeforeAck": "10"})
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, s := range table {
		got[s.Name] = s.Tuned
	}
	for name, want := range map[string]string{
		"MaxPacketBufferSize": "const MaxPacketBufferSize = 4096",
		"batchSize":           "const batchSize = 32 //",
		"packetsBeforeAck":    "const packetsBeforeAck = 10\n",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	if len(table) != len(substitutions)+2 {
		t.Errorf("%d entries", len(table))
	}
	if substitutions[0].Tuned == table[0].Tuned {
		t.Error("the table itself was changed")
	}
	for _, name := range []string{"nothing", "maxPacketSize"} {
		if _, err := withOverrides(substitutions, candidates, map[string]string{name: "1"}); err == nil {
			t.Errorf("%s was taken for a constant", name)
		}
	}
	f := make(valueFlag)
	if f.Set("a=b") != nil || f["a"] != "b" || f.Set("a") == nil || f.Set("=b") == nil || f.Set("a=") == nil {
		t.Errorf("flag: %v", f)
	}
}

// TestTable: every entry says what it is for.
func TestTable(t *testing.T) {
	for _, s := range substitutions {
		if s.Name == "" || s.Reason == "" || s.Measurement == "" || s.Stock == s.Tuned {
			t.Errorf("entry %q is incomplete", s.Name)
		}
		if fileSums[s.File] == "" {
			t.Errorf("%s: no sum of %s", s.Name, s.File)
		}
	}
}

// TestRealModule: the table fits the pinned module, the go command takes the module file, and the copy compiles, with
// every candidate too.
func TestRealModule(t *testing.T) {
	m, err := findModules()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{"batchSize": "9", "packetsBeforeAck": "3", "MaxConnUnprocessedPackets": "257", "sendQueueCapacity": "9"}
	for name, overrides := range map[string]map[string]string{"table": nil, "candidates": values} {
		out := t.TempDir()
		table, err := withOverrides(substitutions, candidates, overrides)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := generate(m, out, table); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("go", "build", "-modfile="+filepath.Join(out, modFileName), engineModule)
		cmd.Dir = m.root
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: go build: %v\n%s", name, err, text)
		}
	}
}
