//go:build !unix

package probe

import "syscall"

// ownGroup: there are no process groups here.
func ownGroup() *syscall.SysProcAttr { return nil }
