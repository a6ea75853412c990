package platform

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

func pinThread(cpu int) (func(), error) {
	if cpu < 0 || cpu >= maxCPU {
		return nil, fmt.Errorf("pin thread: cpu %d out of range", cpu)
	}
	runtime.LockOSThread()
	var before, want unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("pin thread: %w", err)
	}
	want.Set(cpu)
	if err := unix.SchedSetaffinity(0, &want); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("pin thread to cpu %d: %w", cpu, err)
	}
	return func() {
		if err := unix.SchedSetaffinity(0, &before); err != nil {
			// Left locked: the runtime then drops the thread with its
			// goroutine and nobody else inherits the narrow affinity.
			return
		}
		runtime.UnlockOSThread()
	}, nil
}

// maxCPU is the number of processors that unix.CPUSet can name.
const maxCPU = 1024

// threadCPUs are the processors that the calling thread may run on.
func threadCPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("affinity: %w", err)
	}
	out := make([]int, 0, set.Count())
	for cpu := range maxCPU {
		if set.IsSet(cpu) {
			out = append(out, cpu)
		}
	}
	return out, nil
}
