//go:build unix

package daemon

import "golang.org/x/sys/unix"

// withPrivateUmask runs f so that files it makes are for their owner only. The
// umask belongs to the process: files that others make meanwhile are private
// too.
func withPrivateUmask(f func()) {
	old := unix.Umask(0o177)
	defer unix.Umask(old)
	f()
}
