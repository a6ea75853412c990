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
		Voluntary:   int64(r.Nvcsw),
		Involuntary: int64(r.Nivcsw),
	}, nil
}
