package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// Names of the files in the data directory. Those with secrets have mode 0600.
const (
	endpointName    = "endpoint.json"
	tokenName       = "token"
	AdminSocketName = "admin.sock"
	lockName        = "lock"
	signingKeyName  = "signing-key.json"
	jwksName        = "jwks.json"
)

// DefaultDataDir returns the directory used when data_dir is empty: the
// variable FELIX_DATA_DIR, else the user's data directory.
func DefaultDataDir() (string, error) {
	if dir := os.Getenv("FELIX_DATA_DIR"); dir != "" {
		return filepath.Abs(dir)
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "felix"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no home directory for the data directory (set data_dir): %w", err)
	}
	if runtime.GOOS == "darwin" {
		return filepath.Join(home, "Library", "Application Support", "felix"), nil
	}
	return filepath.Join(home, ".local", "share", "felix"), nil
}

// openDataDir makes the data directory if needed and takes its lock, which
// lasts until the returned function is called or the process ends.
func openDataDir(dir string) (release func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if perm := info.Mode().Perm(); perm&0o022 != 0 {
		return nil, fmt.Errorf("%s may be written by others, mode %04o (chmod 700 it)", dir, perm)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil // closing gives the lock back
}

// writeFileAtomic replaces path by a file with the given content, so that a
// reader sees the old or the new one and never a part.
func writeFileAtomic(path string, content []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
