//go:build linux || darwin || freebsd

package platform

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func openFileLimit() (Limit, error) { return getLimit("open files", unix.RLIMIT_NOFILE) }

func lockedMemoryLimit() (Limit, error) { return getLimit("locked memory", unix.RLIMIT_MEMLOCK) }

func getLimit(what string, resource int) (Limit, error) {
	var r unix.Rlimit
	if err := unix.Getrlimit(resource, &r); err != nil {
		return Limit{}, fmt.Errorf("limit of %s: %w", what, err)
	}
	return Limit{Soft: limitValue(r.Cur), Hard: limitValue(r.Max)}, nil
}

// limitValue takes the system's type, which is signed on FreeBSD.
func limitValue[T int64 | uint64](v T) uint64 {
	if uint64(v) == unix.RLIM_INFINITY {
		return Unlimited
	}
	return uint64(v)
}
