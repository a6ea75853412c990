//go:build unix

package platform

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

func processUsage() (Usage, error) {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return Usage{}, fmt.Errorf("process usage: %w", err)
	}
	return Usage{
		User:        time.Duration(r.Utime.Nano()),
		System:      time.Duration(r.Stime.Nano()),
		Voluntary:   count(r.Nvcsw),
		Involuntary: count(r.Nivcsw),
	}, nil
}

// count takes a C long, whose size is the system's.
func count[T int32 | int64](v T) int64 { return int64(v) }
