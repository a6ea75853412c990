// Package testkit holds what tests of several packages share: the one way to
// skip, the real programs built and run as processes, and leak checks.
//
// It is imported by tests only.
package testkit

import (
	"fmt"
	"os"
	"testing"
)

// strictEnv makes a missing right a failure instead of a skip. CI sets it, so
// that a green run there has run everything.
const strictEnv = "FELIX_TEST_STRICT"

// RequireRoot skips the test unless it runs as root, naming the right that is
// missing. With FELIX_TEST_STRICT=1 it fails instead. Only tests that need
// network namespaces, sysctls, BPF or forced socket buffers call it.
func RequireRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	Missing(t, "root (CAP_NET_ADMIN and CAP_SYS_ADMIN)")
}

// Missing skips the test because the named right or kernel version is not
// there, for example "CAP_NET_ADMIN" or "Linux 5.0 (UDP_GRO)". With
// FELIX_TEST_STRICT=1 it fails instead.
func Missing(t testing.TB, what string) {
	t.Helper()
	msg := fmt.Sprintf("needs %s", what)
	if os.Getenv(strictEnv) == "1" {
		t.Fatal(msg)
	}
	t.Skip(msg)
}
