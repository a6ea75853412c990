package archtest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tracked returns the files that git knows, or fails.
func tracked(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("git", "ls-files")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	files := strings.Fields(string(out))
	if len(files) < 50 {
		t.Fatalf("git lists only %d files", len(files))
	}
	return files
}

func TestTopFolders(t *testing.T) {
	for _, f := range tracked(t) {
		top, _, deeper := strings.Cut(f, "/")
		if deeper && !strings.HasPrefix(top, ".") && !slices.Contains(topFolders, top) {
			t.Errorf("%s: %s is not one of the top folders", f, top)
		}
	}
}

// TestPackageComments wants exactly one package comment a folder.
func TestPackageComments(t *testing.T) {
	comments := map[string][]string{}
	for _, s := range sources(t, parser.PackageClauseOnly|parser.ParseComments) {
		if s.test {
			continue
		}
		comments[s.dir()] = append(comments[s.dir()], "")
		if s.file.Doc != nil && !onlyDirectives(s.file.Doc) {
			comments[s.dir()] = append(comments[s.dir()], s.path)
		}
	}
	for dir, list := range comments {
		files := slices.DeleteFunc(list, func(f string) bool { return f == "" })
		if len(files) != 1 {
			t.Errorf("%s: wants one package comment, has %d %v", dir, len(files), files)
		}
	}
}

// onlyDirectives reports whether a comment holds nothing but build or
// generator lines, as generated files do.
func onlyDirectives(g *ast.CommentGroup) bool {
	for _, c := range g.List {
		if !strings.HasPrefix(c.Text, "//go:") && !strings.Contains(c.Text, "DO NOT EDIT") {
			return false
		}
	}
	return true
}

// TestSkipsGoThroughTestkit keeps skipping in one place.
func TestSkipsGoThroughTestkit(t *testing.T) {
	skip := regexp.MustCompile(`\b(t|tb|b|f)\.Skip(f|Now)?\(`)
	for _, f := range tracked(t) {
		if !strings.HasSuffix(f, ".go") || strings.HasPrefix(f, "internal/testkit/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, f))
		if os.IsNotExist(err) {
			continue // deleted in the working tree
		}
		if err != nil {
			t.Fatal(err)
		}
		if loc := skip.FindIndex(text); loc != nil {
			t.Errorf("%s:%d skips by itself: call testkit.Missing", f, 1+bytes.Count(text[:loc[0]], []byte("\n")))
		}
	}
}

// TestCommittedTextIsPortable refuses paths of one machine and left-over notes.
func TestCommittedTextIsPortable(t *testing.T) {
	// Spelled in two parts, so that this file does not match itself.
	banned := regexp.MustCompile(`/(ho` + `me|wo` + `rk|ro` + `ot)/[a-z]|\b(TO` + `DO|FIX` + `ME|XX` + `X)\b|not imple` + `mented`)
	for _, f := range tracked(t) {
		switch filepath.Ext(f) {
		case ".go", ".c", ".h", ".md", ".py", ".yml", ".yaml", ".service", ".plist", "":
		default:
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, f))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if loc := banned.FindIndex(text); loc != nil {
			t.Errorf("%s:%d: %q does not belong in the repository", f, 1+bytes.Count(text[:loc[0]], []byte("\n")), text[loc[0]:loc[1]])
		}
	}
}

// TestDocLinks follows every relative link in the Markdown files.
func TestDocLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)
	found := 0
	for _, f := range tracked(t) {
		if filepath.Ext(f) != ".md" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, f))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllSubmatch(text, -1) {
			target := string(m[1])
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			found++
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(f), target)); err != nil {
				t.Errorf("%s links to %s, which is not there", f, target)
			}
		}
	}
	if found == 0 {
		t.Error("no relative link found in any Markdown file: the check is broken")
	}
}
