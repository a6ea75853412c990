package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// writeTree makes a folder hold exactly the files of a tree and reports whether it did not before. A new tree is
// complete before it takes the place of the old one.
func writeTree(dir string, tree map[string][]byte) (changed bool, err error) {
	same, err := sameTree(dir, tree)
	if err != nil || same {
		return false, err
	}
	next := dir + ".new"
	if err := os.RemoveAll(next); err != nil {
		return false, err
	}
	for name, text := range tree {
		file := filepath.Join(next, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return false, err
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return false, err
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return false, err
	}
	return true, os.Rename(next, dir)
}

// sameTree reports whether a folder holds exactly the files of a tree.
func sameTree(dir string, tree map[string][]byte) (bool, error) {
	found, same := 0, true
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		want, ok := tree[filepath.ToSlash(rel)]
		if !ok {
			same = false
			return fs.SkipAll
		}
		found++
		got, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			same = false
			return fs.SkipAll
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return same && found == len(tree), err
}

// writeIfDifferent writes a file unless it already has the content.
func writeIfDifferent(file string, text []byte) (changed bool, err error) {
	old, err := os.ReadFile(file)
	if err == nil && bytes.Equal(old, text) {
		return false, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, os.WriteFile(file, text, 0o644)
}
