//go:build unix

package platform

import (
	"runtime"

	"golang.org/x/sys/unix"
)

const osName = runtime.GOOS

func kernelRelease() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}
