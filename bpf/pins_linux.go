//go:build amd64 || arm64

package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// pinDir is the directory of the pinned maps, locked by this process. A nil
// *pinDir pins nothing.
type pinDir struct {
	path string
	mode fs.FileMode
	dir  *os.File // holds the lock; nil if the directory cannot be used
	made bool     // by us, so we remove it

	paths   map[string]string // pins that exist, by map name
	stale   []string
	foreign map[string]string // by map name
	reason  *Reason
}

// openPins locks the directory and removes pins that a killed process has left.
// It returns nil for an empty path.
func openPins(path string, mode fs.FileMode) *pinDir {
	if path == "" {
		return nil
	}
	d := &pinDir{path: filepath.Clean(path), mode: mode, paths: map[string]string{}, foreign: map[string]string{}}
	if d.reason = d.open(); d.reason == nil {
		d.sweep()
	}
	return d
}

func (d *pinDir) open() *Reason {
	if err := onBPFFS(filepath.Dir(d.path)); err != nil {
		if err := onBPFFS(d.path); err != nil {
			return noBPFFS(d.path, err)
		}
	}
	err := os.Mkdir(d.path, d.dirMode())
	d.made = err == nil
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return d.denied("cannot be made", err)
	}
	if d.made {
		_ = os.Chmod(d.path, d.dirMode()) // as asked for, whatever the umask; else it is stricter
	}
	dir, err := os.Open(d.path)
	if err != nil {
		return d.denied("cannot be opened", err)
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = dir.Close() // nothing was written
		return &Reason{
			Kind:   ReasonPinInUse,
			Text:   "another process uses the pin directory " + d.path,
			Remedy: "give each daemon a pin directory of its own",
			Err:    err,
		}
	}
	d.dir = dir
	return nil
}

// dirMode adds search to each read bit: 0600 gives 0700, 0644 gives 0755.
func (d *pinDir) dirMode() fs.FileMode { return 0o700 | d.mode | (d.mode&0o444)>>2 }

func (d *pinDir) denied(what string, err error) *Reason {
	if errors.Is(err, fs.ErrPermission) {
		return &Reason{
			Kind:   ReasonRights,
			Text:   "the pin directory " + d.path + " " + what + ": permission denied",
			Remedy: "make it beforehand for the daemon's user, below a bpf mount that this user may enter",
			Err:    err,
		}
	}
	return &Reason{Kind: ReasonOther, Text: "the pin directory " + d.path + " " + what + ": " + plain(err), Err: err}
}

var errNotBPFFS = errors.New("not a bpf file system")

func onBPFFS(path string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return os.NewSyscallError("statfs", err)
	}
	if uint32(st.Type) != unix.BPF_FS_MAGIC {
		return errNotBPFFS
	}
	return nil
}

func noBPFFS(path string, err error) *Reason {
	return &Reason{
		Kind:   ReasonNoBPFFS,
		Text:   "no bpf file system is mounted where the pin directory " + path + " would be",
		Remedy: "mount -t bpf bpf /sys/fs/bpf",
		Err:    err,
	}
}

// sweep removes what carries one of our names and is one of our maps. The lock
// says that no living process uses it.
func (d *pinDir) sweep() {
	for _, p := range probes {
		for _, name := range p.maps {
			path := filepath.Join(d.path, name)
			if !ourMap(path, name) {
				continue
			}
			if err := os.Remove(path); err == nil {
				d.stale = append(d.stale, path)
			}
		}
	}
}

// ourMap reports whether path is a pinned map that the kernel knows by name.
func ourMap(path, name string) bool {
	m, err := ebpf.LoadPinnedMap(path, nil)
	if err != nil {
		return false
	}
	defer func() { _ = m.Close() }() // releases the descriptor
	info, err := m.Info()
	return err == nil && info.Name == name
}

// add pins maps. A name that something else occupies is left alone.
func (d *pinDir) add(maps map[string]*ebpf.Map) {
	if d == nil || d.dir == nil {
		return
	}
	for name, m := range maps {
		path := filepath.Join(d.path, name)
		if _, err := os.Lstat(path); err == nil {
			d.foreign[name] = path
			continue
		}
		if err := d.pin(m, path); err != nil {
			d.reason = d.denied("does not take pins", err)
			continue
		}
		d.paths[name] = path
	}
}

func (d *pinDir) pin(m *ebpf.Map, path string) error {
	if err := m.Pin(path); err != nil {
		return err
	}
	if err := os.Chmod(path, d.mode); err != nil {
		_ = m.Unpin() // the first error says enough
		return err
	}
	return nil
}

// remove takes the pins of maps away.
func (d *pinDir) remove(maps map[string]*ebpf.Map) {
	if d == nil {
		return
	}
	for name, m := range maps {
		delete(d.foreign, name)
		if _, ok := d.paths[name]; !ok {
			continue
		}
		delete(d.paths, name)
		if err := m.Unpin(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.reason = d.denied("keeps a pin", err)
		}
	}
}

func (d *pinDir) state() PinStatus {
	if d == nil {
		return PinStatus{}
	}
	s := PinStatus{Dir: d.path, Stale: slices.Clone(d.stale), Reason: d.reason}
	for _, path := range d.paths {
		s.Paths = append(s.Paths, path)
	}
	for _, path := range d.foreign {
		s.Foreign = append(s.Foreign, path)
	}
	slices.Sort(s.Paths)
	slices.Sort(s.Foreign)
	if s.Reason == nil && len(s.Foreign) > 0 {
		s.Reason = &Reason{
			Kind:   ReasonPinForeign,
			Text:   fmt.Sprintf("%d names in the pin directory %s are taken by something that is not Felix's", len(s.Foreign), d.path),
			Remedy: "remove it, or use another pin directory",
		}
	}
	return s
}

// close gives the directory up. The pins are gone by then.
func (d *pinDir) close() error {
	if d == nil || d.dir == nil {
		return nil
	}
	defer func() {
		_ = d.dir.Close() // ends the lock; nothing was written
		d.dir = nil
	}()
	if !d.made {
		return nil
	}
	// Foreign files keep the directory.
	if err := os.Remove(d.path); err != nil && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
