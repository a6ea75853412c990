//go:build unix

package probe

import "syscall"

// ownGroup keeps a child out of the program's process group, to which a terminal
// sends its signals: the program ends its children itself.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
