//go:build amd64 || arm64

package bpf

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"felix/platform"
)

// ownNetwork gives a child process a network of its own, which ends with it.
var ownNetwork = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}

// loopbackUp switches on the loopback interface of a new network.
func loopbackUp(t *testing.T) {
	t.Helper()
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		t.Fatal(err)
	}
}

// The probe, the socket, the network's counters and the sender agree.
func TestDropsAreExact(t *testing.T) {
	if !inChild(t, ownNetwork) {
		return
	}
	loopbackUp(t)
	p := open(t, Options{Mode: ModeFull})
	from, quiet := newSocket(t, unix.AF_INET), newSocket(t, unix.AF_INET)
	small, id := watched(t, p)
	if _, err := p.Watch(uintptr(quiet.fd)); err != nil {
		t.Fatal(err)
	}
	before, err := platform.UDPSnmp()
	if err != nil {
		t.Fatal(err)
	}
	small.set(t, unix.SOL_SOCKET, unix.SO_RCVBUF, 64<<10)
	const sent = 5000
	from.send(t, small, sent, 1200)
	arrived := small.drain(t)

	after, err := platform.UDPSnmp()
	if err != nil {
		t.Fatal(err)
	}
	d := snapshot(t, p).Drops
	got, want := d.Socket(id.Cookie), uint64(sent-arrived)
	if want == 0 || got.BufferFull != want || got.Memory != 0 || got.Other != 0 || got.LocalPort != small.port {
		t.Errorf("counted %+v, want %d of %d dropped", got, want, sent)
	}
	if k := small.drops(t); k != want {
		t.Errorf("SO_MEMINFO says %d, the sender %d", k, want)
	}
	if snmp := after.Sub(before).V4.RcvbufErrors; snmp != want {
		t.Errorf("snmp says %d, the sender %d", snmp, want)
	}
	if len(d.Sockets) != 2 || d.Total() != want {
		t.Errorf("counted %+v, want two sockets, one without drops", d)
	}
}

// Neither the sockets of others nor those of this process that nobody watches
// count.
func TestUnwatchedDropsDoNotCount(t *testing.T) {
	p := open(t, Options{Mode: ModeFull})
	from, small := newSocket(t, unix.AF_INET), newSocket(t, unix.AF_INET)
	small.set(t, unix.SOL_SOCKET, unix.SO_RCVBUF, 4096)
	from.send(t, small, 100, 1200)
	if small.drops(t) == 0 {
		t.Fatal("nothing was dropped")
	}
	if d := snapshot(t, p).Drops; len(d.Sockets) != 0 || d.Total() != 0 {
		t.Errorf("counted %+v of a socket that nobody watches", d)
	}
	// Watching starts at 0, and forgetting removes the entry.
	id, err := p.Watch(uintptr(small.fd))
	if err != nil {
		t.Fatal(err)
	}
	before := small.drops(t)
	from.send(t, small, 10, 1200)
	if d := snapshot(t, p).Drops; d.Total() != small.drops(t)-before || d.Total() == 0 {
		t.Errorf("counted %+v, want %d", d, small.drops(t)-before)
	}
	p.Unwatch(id)
	from.send(t, small, 10, 1200) // the socket has a cookie by now
	if d := snapshot(t, p).Drops; len(d.Sockets) != 0 {
		t.Errorf("still there after Unwatch: %+v", d)
	}
}

func TestWatchRefusesWhatIsNoSocket(t *testing.T) {
	p := open(t, Options{})
	fds := make([]int, 2)
	if err := unix.Pipe2(fds, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	if s, err := p.Watch(uintptr(fds[0])); err == nil {
		t.Errorf("watching a pipe gave %+v", s)
	}
}
