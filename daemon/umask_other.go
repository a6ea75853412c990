//go:build !unix

package daemon

// withPrivateUmask runs f; this system has no umask.
func withPrivateUmask(f func()) { f() }
