package hostcheck

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"felix/internal/testkit"
	"felix/platform"
	"felix/udp"
)

// runOnOwnThread prepares a thread that ends with the check and is not the
// process's first, whose view of /proc is the process's.
func runOnOwnThread(t *testing.T, prepare func() error) Report {
	t.Helper()
	var r Report
	var err error
	done := make(chan struct{})
	var onThread func()
	onThread = func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			inner := make(chan struct{})
			go func() {
				defer close(inner)
				onThread()
			}()
			<-inner // this goroutine keeps the first thread to itself meanwhile
			return
		}
		if err = prepare(); err == nil {
			r = Run(context.Background())
		}
	}
	go func() {
		defer close(done)
		onThread()
	}()
	<-done
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestBufferCutDown: without CAP_NET_ADMIN the host's limit decides, and the
// check names it with both sizes; with it the full size is granted. Capabilities
// are per thread, so the test drops them on one that ends with it.
func TestBufferCutDown(t *testing.T) {
	testkit.RequireRoot(t)
	limit, err := platform.ReadBufferLimit()
	if err != nil {
		t.Fatal(err)
	}
	with := Run(t.Context())
	if f, _ := with.Find("read_buffer"); f.Severity != OK {
		t.Errorf("as root: %+v", f)
	}
	without := runOnOwnThread(t, func() error {
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		return unix.Capset(&hdr, &none[0])
	})
	f, _ := without.Find("read_buffer")
	if limit.Bytes >= udp.DefaultBuffer {
		if f.Severity != OK {
			t.Errorf("limit %d is enough, yet: %+v", limit.Bytes, f)
		}
		return
	}
	if f.Severity != CostsThroughput || !strings.Contains(f.Evidence, kib(int(limit.Bytes))) || !strings.Contains(f.Evidence, limit.Sysctl) {
		t.Errorf("limit %d: %+v", limit.Bytes, f)
	}
	if f, _ := without.Find("cap_bpf"); f.Severity != Notice {
		t.Errorf("no capabilities: %+v", f)
	}
	if without.Err() == nil {
		t.Error("a cut buffer is no error")
	}
}

// TestNamespaceWithoutIPv6: in a namespace whose loopback is up but has IPv6
// switched off, the check says so and still measures the rest.
func TestNamespaceWithoutIPv6(t *testing.T) {
	testkit.RequireRoot(t)
	r := runOnOwnThread(t, func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return loopbackUpWithoutIPv6()
	})
	for id, want := range map[string]Severity{"ipv6": Notice, "path_mtu": Notice, "loopback_mtu": OK, "read_buffer": OK} {
		if f, _ := r.Find(id); f.Severity != want {
			t.Errorf("%s: %+v, want %v", id, f, want)
		}
	}
}

// TestCancelledCheckSaysSo: facts that were not reached are unknown, not good.
func TestCancelledCheckSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := Run(ctx)
	if r.Facts.Unknown["rest"] == "" || r.Severity < CostsThroughput {
		t.Errorf("severity %v, unknown %v", r.Severity, r.Facts.Unknown)
	}
}
