//go:build amd64 || arm64

package bpf

import (
	"errors"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

var modes = []Mode{ModeOff, ModeSched, ModeFull}

// BenchmarkDatagram is a send and a receive of 1200 bytes over loopback.
func BenchmarkDatagram(b *testing.B) {
	for _, m := range modes {
		b.Run(m.String(), func(b *testing.B) {
			open(b, Options{Mode: m})
			from, to := newSocket(b, unix.AF_INET), newSocket(b, unix.AF_INET)
			buf := make([]byte, 1200)
			for b.Loop() {
				if err := unix.Sendto(from.fd, buf, 0, to.addr); err != nil {
					b.Fatal(err)
				}
				for {
					_, _, err := unix.Recvfrom(to.fd, buf, 0)
					if err == nil {
						break
					}
					if !errors.Is(err, unix.EAGAIN) { // loopback takes its time
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkRefusedSend is a send that the kernel refuses for its length.
func BenchmarkRefusedSend(b *testing.B) {
	for _, m := range []Mode{ModeOff, ModeFull} {
		b.Run(m.String(), func(b *testing.B) {
			open(b, Options{Mode: m})
			from, to := newSocket(b, unix.AF_INET), newSocket(b, unix.AF_INET)
			vector := messages(to, tooLong)
			for b.Loop() {
				_, _ = mmsg(unix.SYS_SENDMMSG, from, vector) // EMSGSIZE
			}
		})
	}
}

// BenchmarkBlockAndWake throws a byte to another thread and back: two sleeps,
// two wakeups and four switches.
func BenchmarkBlockAndWake(b *testing.B) {
	for _, m := range modes {
		b.Run(m.String(), func(b *testing.B) {
			open(b, Options{Mode: m})
			r1, w1 := blocking(b)
			r2, w2 := blocking(b)
			go func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				buf := make([]byte, 1)
				for {
					if n, _ := unix.Read(r1, buf); n != 1 || buf[0] != 0 {
						return
					}
					_, _ = unix.Write(w2, buf)
				}
			}()
			buf := make([]byte, 1)
			for b.Loop() {
				_, _ = unix.Write(w1, buf)
				_, _ = unix.Read(r2, buf)
			}
			_, _ = unix.Write(w1, []byte{1})
		})
	}
}

func BenchmarkSnapshot(b *testing.B) {
	p := open(b, Options{Mode: ModeFull})
	for b.Loop() {
		snapshot(b, p)
	}
}

func BenchmarkOpenFull(b *testing.B) {
	for b.Loop() {
		p, err := Open(Options{Mode: ModeFull})
		if err != nil {
			b.Fatal(err)
		}
		p.Close()
	}
}
