package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// goSources finds the sources of the Go tool chain.
func (a *app) goSources(ctx context.Context) (string, error) {
	var roots []string
	if root := a.getenv("GOROOT"); root != "" {
		roots = append(roots, root)
	}
	if program, err := exec.LookPath("go"); err == nil {
		if out, err := exec.CommandContext(ctx, program, "env", "GOROOT").Output(); err == nil {
			roots = append(roots, strings.TrimSpace(string(out)))
		}
		if path, err := filepath.EvalSymlinks(program); err == nil {
			roots = append(roots, filepath.Dir(filepath.Dir(path)))
		}
	}
	roots = append(roots, "/usr/local/go", "/usr/lib/go", "/opt/homebrew/opt/go/libexec")
	for _, root := range roots {
		src := filepath.Join(root, "src")
		if info, err := os.Stat(filepath.Join(src, "runtime")); err == nil && info.IsDir() {
			return src, nil
		}
	}
	return "", hint(errors.New("no sources of the Go tool chain found"), "name a folder with --dir")
}

// listFiles returns the paths of all regular files below dir, relative to it,
// in lexical order.
func listFiles(ctx context.Context, dir string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if !d.Type().IsRegular() {
			return nil
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if len(rel) > maxDemoPath {
			return fmt.Errorf("%s: the path is longer than %d bytes", path, maxDemoPath)
		}
		files = append(files, filepath.ToSlash(rel))
		return nil
	})
	if err == nil && len(files) == 0 {
		err = hint(fmt.Errorf("no regular files in %s", dir), "name another folder with --dir")
	}
	return files, err
}
