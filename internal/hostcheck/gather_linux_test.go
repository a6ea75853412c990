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
	done := make(chan Report)
	go func() {
		runtime.LockOSThread()
		defer close(done)
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&hdr, &none[0]); err != nil {
			t.Errorf("capset: %v", err)
			return
		}
		done <- Run(context.WithoutCancel(t.Context()))
	}()
	without, ok := <-done
	if !ok {
		t.FailNow()
	}
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
	done := make(chan Report)
	go func() {
		runtime.LockOSThread()
		defer close(done)
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Errorf("unshare: %v", err)
			return
		}
		if err := loopbackUpWithoutIPv6(); err != nil {
			t.Errorf("prepare namespace: %v", err)
			return
		}
		done <- Run(context.WithoutCancel(t.Context()))
	}()
	r, ok := <-done
	if !ok {
		t.FailNow()
	}
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
