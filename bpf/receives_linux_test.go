//go:build amd64 || arm64

package bpf

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// watched is a socket that the probes know.
func watched(t *testing.T, p *Probes) (*socket, Socket) {
	t.Helper()
	s := newSocket(t, unix.AF_INET)
	id, err := p.Watch(uintptr(s.fd))
	if err != nil {
		t.Fatal(err)
	}
	if id.LocalPort != s.port || id.Cookie == 0 {
		t.Fatalf("watching port %d gave %+v", s.port, id)
	}
	return s, id
}

func TestReceivesPerWakeupAreExact(t *testing.T) {
	for _, by := range attachments() {
		t.Run(string(by), func(t *testing.T) {
			p := openBy(t, by, MetricReceives)
			from := newSocket(t, unix.AF_INET)
			to, id := watched(t, p)
			want := SocketReceives{Cookie: id.Cookie, LocalPort: id.LocalPort}
			slots := map[int]uint64{}
			for _, n := range []int{1, 2, 3, 4, 7, 8, 1, 0, 33} {
				from.send(t, to, n, 10)
				if got := to.drain(t); got != n {
					t.Fatalf("%d of %d datagrams arrived", got, n)
				}
				want.Receives += uint64(n)
				want.Bytes += uint64(10 * n)
				if n == 0 {
					want.Empty++
					continue
				}
				want.Wakeups++
				slots[slotOf(uint64(n), 16)]++
			}
			got := snapshot(t, p).Receives.Socket(id.Cookie)
			for i, n := range got.PerWakeup.Slots {
				if n != slots[i] {
					t.Errorf("slot %d holds %d wakeups, want %d", i, n, slots[i])
				}
			}
			if got.PerWakeup.Count != want.Wakeups || got.PerWakeup.Sum != want.Receives {
				t.Errorf("per wakeup %+v, want %d of %d", got.PerWakeup, want.Wakeups, want.Receives)
			}
			got.PerWakeup = Histogram{}
			if got.Receives != want.Receives || got.Bytes != want.Bytes || got.Wakeups != want.Wakeups || got.Empty != want.Empty || got.LocalPort != want.LocalPort {
				t.Errorf("counted %+v, want %+v", got, want)
			}
		})
	}
}

// A recvmmsg on a half-filled vector ends the batch. The next one, which finds
// nothing, ends none.
func TestReceiveBatches(t *testing.T) {
	for _, by := range attachments() {
		t.Run(string(by), func(t *testing.T) {
			p := openBy(t, by, MetricReceives)
			from := newSocket(t, unix.AF_INET)
			to, id := watched(t, p)
			for round := range 5 {
				from.send(t, to, 10, 100)
				for _, want := range []int{4, 4, 2} {
					if n, err := mmsg(unix.SYS_RECVMMSG, to, messages(nil, 200, 200, 200, 200)); n != want || err != nil {
						t.Fatalf("recvmmsg: %d, %v, want %d", n, err, want)
					}
				}
				if round%2 == 0 {
					continue
				}
				if _, err := mmsg(unix.SYS_RECVMMSG, to, messages(nil, 200)); !errors.Is(err, unix.EAGAIN) {
					t.Fatalf("recvmmsg: %v, want EAGAIN", err)
				}
			}
			got := snapshot(t, p).Receives.Socket(id.Cookie)
			if got.Receives != 50 || got.Bytes != 5000 || got.Wakeups != 5 || got.PerWakeup.Slots[3] != 5 {
				t.Errorf("counted %+v, want 5 wakeups of 10 receives", got)
			}
		})
	}
}

func TestPeekingIsNoReceive(t *testing.T) {
	for _, by := range attachments() {
		t.Run(string(by), func(t *testing.T) {
			p := openBy(t, by, MetricReceives)
			from := newSocket(t, unix.AF_INET)
			to, id := watched(t, p)
			b := make([]byte, 10)
			for range 3 { // an empty error queue, too, says EAGAIN
				if _, _, _, _, err := unix.Recvmsg(to.fd, b, nil, unix.MSG_ERRQUEUE); !errors.Is(err, unix.EAGAIN) {
					t.Fatalf("error queue: %v", err)
				}
			}
			from.send(t, to, 1, 10)
			if _, _, err := unix.Recvfrom(to.fd, b, unix.MSG_PEEK); err != nil {
				t.Fatal(err)
			}
			to.drain(t)
			if got := snapshot(t, p).Receives.Socket(id.Cookie); got.Receives != 1 || got.Wakeups != 1 || got.Empty != 0 {
				t.Errorf("counted %+v, want one receive", got)
			}
		})
	}
}

// Sockets that nobody watches are told apart by the tracepoint, and counted
// together by sys_exit.
func TestUnwatchedReceives(t *testing.T) {
	for _, by := range attachments() {
		t.Run(string(by), func(t *testing.T) {
			p := openBy(t, by, MetricReceives)
			from, a, b := newSocket(t, unix.AF_INET), newSocket(t, unix.AF_INET), newSocket(t, unix.AF_INET)
			from.send(t, a, 2, 1)
			from.send(t, b, 3, 1)
			a.drain(t)
			b.drain(t)
			got := snapshot(t, p).Receives.Sockets
			if by == AttachSyscallExit {
				if len(got) != 1 || got[0].Cookie != 0 || got[0].LocalPort != 0 || got[0].Receives != 5 {
					t.Errorf("counted %+v, want 5 together", got)
				}
				return
			}
			if len(got) != 2 || got[0].LocalPort != b.port || got[0].Receives != 3 || got[1].LocalPort != a.port || got[1].Receives != 2 {
				t.Errorf("counted %+v, want 3 at %d and 2 at %d", got, b.port, a.port)
			}
		})
	}
}
