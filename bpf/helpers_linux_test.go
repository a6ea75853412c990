//go:build amd64 || arm64

package bpf

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"felix/internal/testkit"
	"felix/platform"
)

// helperEnv makes the test program a helper process instead of running tests.
const helperEnv = "FELIX_BPF_HELPER"

// childEnv names the test that a child process is to run.
const childEnv = "FELIX_BPF_CHILD"

var helpers = map[string]func() error{
	"hold": holdProbes,
	"send": sendForeign,
	"byte": writeByte,
}

func TestMain(m *testing.M) {
	if name := os.Getenv(helperEnv); name != "" {
		if err := helpers[name](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// helper is this test program, to be started as a helper process.
func helper(name string, env ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), append(env, helperEnv+"="+name)...)
	cmd.Stderr = os.Stderr
	return cmd
}

// inChild runs the calling test again in a process with the given attributes,
// and reports whether this is that process: `if !inChild(...) { return }`.
func inChild(t *testing.T, attr *syscall.SysProcAttr) bool {
	t.Helper()
	if os.Getenv(childEnv) == t.Name() {
		return true
	}
	testkit.RequireRoot(t)
	pattern := "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
	cmd := exec.Command("/proc/self/exe", "-test.run", pattern, "-test.v", "-test.timeout", "2m")
	cmd.Env = append(os.Environ(), childEnv+"="+t.Name())
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	if _, why, ok := bytes.Cut(out, []byte(": needs ")); ok && err == nil && bytes.Contains(out, []byte("--- SKIP: "+t.Name())) {
		what, _, _ := strings.Cut(string(why), "\n")
		testkit.Missing(t, what)
	}
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Fatalf("in a process of its own: %v\n%s", err, out)
	}
	return false
}

// open opens probes for the calling process and closes them with the test. All
// metrics of the mode must attach.
func open(t testing.TB, o Options) *Probes {
	t.Helper()
	testkit.RequireRoot(t)
	p, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	mustAttach(t, p)
	return p
}

func mustAttach(t testing.TB, p *Probes) {
	t.Helper()
	for _, m := range p.Status().Metrics {
		if m.On || !p.Mode().has(m.Metric) {
			continue
		}
		if m.Reason.Kind == ReasonNoBTF || !platform.Kernel().AtLeast(5, 5) {
			testkit.Missing(t, "Linux 5.5 with BTF")
		}
		var v *ebpf.VerifierError
		if errors.As(m.Reason.Err, &v) {
			t.Fatalf("%s: %v: %+v", m.Metric, m.Reason, v)
		}
		t.Fatalf("%s: %v: %v", m.Metric, m.Reason, m.Reason.Err)
	}
}

// attachments are the ways to attach that this kernel has for a metric with
// several.
func attachments() []Attachment {
	if platform.Kernel().AtLeast(6, 3) {
		return []Attachment{AttachTracepoint, AttachSyscallExit}
	}
	return []Attachment{AttachSyscallExit}
}

// openBy opens probes of which those with several ways to attach use by.
func openBy(t *testing.T, by Attachment, metric Metric) *Probes {
	t.Helper()
	if by == AttachTracepoint && !platform.Kernel().AtLeast(6, 3) {
		testkit.Missing(t, "Linux 6.3 (tracepoint sock_send_length)")
	}
	p := open(t, Options{})
	if by == AttachSyscallExit {
		p.host.first = 1
	}
	if err := p.SetMode(ModeFull); err != nil {
		t.Fatal(err)
	}
	st := p.Status().Metric(metric)
	if !st.On || st.Attachment != by {
		t.Fatalf("%s attached by %q, want %q: %v", metric, st.Attachment, by, st.Reason)
	}
	if (by == AttachSyscallExit) != (st.Limits != "") {
		t.Errorf("attached by %s, but limits are %q", by, st.Limits)
	}
	return p
}

func snapshot(t testing.TB, p *Probes) Snapshot {
	t.Helper()
	s, err := p.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// socket is a bare non-blocking UDP socket: each call is one system call.
type socket struct {
	fd   int
	addr unix.Sockaddr
	port uint16
}

func newSocket(t testing.TB, family int) *socket {
	t.Helper()
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("socket: %v", err)
	}
	s := &socket{fd: fd}
	t.Cleanup(s.close)
	var local unix.Sockaddr = &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	if family == unix.AF_INET6 {
		local = &unix.SockaddrInet6{Addr: [16]byte{15: 1}}
	}
	if err := unix.Bind(fd, local); err != nil {
		t.Fatalf("bind: %v", err)
	}
	if s.addr, err = unix.Getsockname(fd); err != nil {
		t.Fatal(err)
	}
	switch a := s.addr.(type) {
	case *unix.SockaddrInet4:
		s.port = uint16(a.Port)
	case *unix.SockaddrInet6:
		s.port = uint16(a.Port)
	}
	return s
}

func (s *socket) close() {
	if s.fd >= 0 {
		unix.Close(s.fd)
		s.fd = -1
	}
}

func (s *socket) set(t testing.TB, level, opt, value int) {
	t.Helper()
	if err := unix.SetsockoptInt(s.fd, level, opt, value); err != nil {
		t.Fatalf("setsockopt %d %d: %v", level, opt, err)
	}
}

// send sends n datagrams and waits until each is in the buffer of the receiver,
// whom nobody reads meanwhile, or dropped: on a busy machine loopback takes its
// time.
func (s *socket) send(t testing.TB, to *socket, n, bytes int) {
	t.Helper()
	b := make([]byte, bytes)
	before := to.memory(t)
	one := func() {
		if err := unix.Sendto(s.fd, b, 0, to.addr); err != nil {
			t.Fatalf("sendto: %v", err)
		}
	}
	var unit uint32 // what a datagram takes in the buffer; 0 if it is full
	for i := range n {
		one()
		if i == 0 {
			eventually(t, "the first datagram arrives", func() bool { return to.memory(t) != before })
			unit = to.memory(t).queued - before.queued
		}
	}
	eventually(t, "all datagrams arrive", func() bool {
		now := to.memory(t)
		arrived := now.drops - before.drops
		if unit > 0 {
			arrived += (now.queued - before.queued) / unit
		}
		return int(arrived) == n
	})
}

// memory is a part of SO_MEMINFO (linux/sock_diag.h).
type memory struct {
	queued uint32 // SK_MEMINFO_RMEM_ALLOC, bytes with the kernel's own
	drops  uint32 // SK_MEMINFO_DROPS
}

func (s *socket) memory(t testing.TB) memory {
	t.Helper()
	var info [9]uint32
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(s.fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		t.Fatalf("SO_MEMINFO: %v", errno)
	}
	return memory{queued: info[0], drops: info[8]}
}

func (s *socket) drops(t testing.TB) uint64 { return uint64(s.memory(t).drops) }

// readable waits until there is something to read.
func (s *socket) readable(t testing.TB) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 20_000)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n != 1 || err != nil {
			t.Fatalf("nothing arrived: %v", err)
		}
		return
	}
}

// drain reads datagrams one by one until the socket is empty, and returns their
// number.
func (s *socket) drain(t testing.TB) int {
	t.Helper()
	b := make([]byte, 1<<16)
	for n := 0; ; n++ {
		_, _, err := unix.Recvfrom(s.fd, b, 0)
		if errors.Is(err, unix.EAGAIN) {
			return n
		}
		if err != nil {
			t.Fatalf("recvfrom: %v", err)
		}
	}
}

// mmsghdr mirrors struct mmsghdr of sys/socket.h on 64-bit systems.
type mmsghdr struct {
	hdr   unix.Msghdr
	bytes uint32
	_     uint32
}

// messages makes one message of each length to the IPv4 socket to, or without a
// destination if that is nil. All share one buffer.
func messages(to *socket, lengths ...int) []mmsghdr {
	out := make([]mmsghdr, len(lengths))
	for i, n := range lengths {
		iov := &unix.Iovec{Base: &make([]byte, n+1)[0]}
		iov.SetLen(n)
		out[i].hdr.Iov = iov
		out[i].hdr.SetIovlen(1)
		if to != nil {
			name := &unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: [4]byte{127, 0, 0, 1}}
			*(*[2]byte)(unsafe.Pointer(&name.Port)) = [2]byte{byte(to.port >> 8), byte(to.port)}
			out[i].hdr.Name = (*byte)(unsafe.Pointer(name))
			out[i].hdr.Namelen = unix.SizeofSockaddrInet4
		}
	}
	return out
}

// mmsg calls sendmmsg or recvmmsg.
func mmsg(call uintptr, s *socket, vector []mmsghdr) (int, error) {
	n, _, errno := unix.Syscall6(call, uintptr(s.fd), uintptr(unsafe.Pointer(&vector[0])), uintptr(len(vector)), 0, 0, 0)
	runtime.KeepAlive(vector)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// segmented is the control data that asks for segments of a size.
func segmented(size uint16) []byte {
	b := make([]byte, unix.CmsgSpace(2))
	h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	h.Level, h.Type = unix.SOL_UDP, unix.UDP_SEGMENT
	h.SetLen(unix.CmsgLen(2))
	*(*uint16)(unsafe.Pointer(&b[unix.CmsgLen(0)])) = size
	return b
}

// eventually polls a condition; programs of the kernel end a moment after their
// last user.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	testkit.Eventually(t, 20*time.Second, what, cond)
}
