package testkit

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// OpenDescriptors counts the open file descriptors of the process with the
// given id (0 for the calling process). It reads /proc and is meant for Linux.
func OpenDescriptors(t testing.TB, pid int) int {
	t.Helper()
	dir := "/proc/self/fd"
	if pid != 0 {
		dir = "/proc/" + strconv.Itoa(pid) + "/fd"
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatalf("count descriptors: %v", err)
	}
	return len(entries)
}

// Eventually polls cond every few milliseconds until it returns true and fails
// the test with what when it has not within the given time.
func Eventually(t testing.TB, within time.Duration, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
