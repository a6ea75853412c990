package platform

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// hostRoot is where /proc and /sys are looked for: "/", or a directory with
// made-up files in tests.
type hostRoot string

const realRoot hostRoot = "/"

func (r hostRoot) read(path string) (string, error) {
	b, err := os.ReadFile(filepath.Join(string(r), path))
	return string(b), err
}

func (r hostRoot) path(path string) string { return filepath.Join(string(r), path) }

func readSysctl(name string) (string, error) { return realRoot.sysctl(name) }

// sysctl maps dots to slashes. /proc/sys/net resolves in the network namespace
// of the thread that opens the file.
func (r hostRoot) sysctl(name string) (string, error) {
	if name == "" || strings.ContainsAny(name, "/\x00") || strings.Contains(name, "..") {
		return "", fmt.Errorf("sysctl %q: not a dotted name", name)
	}
	text, err := r.read("proc/sys/" + strings.ReplaceAll(name, ".", "/"))
	if err != nil {
		return "", fmt.Errorf("sysctl %s: %w", name, err)
	}
	return strings.TrimRight(text, "\n"), nil
}
