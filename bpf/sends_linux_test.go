//go:build amd64 || arm64

package bpf

import (
	"errors"
	"net/netip"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// A UDP datagram holds at most 65507 bytes over IPv4.
const tooLong = 65508

// onlyError returns the single entry of Errors.
func onlyError(t *testing.T, p *Probes) (SendError, *Sends) {
	t.Helper()
	s := snapshot(t, p).Sends
	if len(s.Errors) != 1 {
		t.Fatalf("want one kind of refusal, have %+v", s.Errors)
	}
	return s.Errors[0], s
}

func TestRefusedSendsAreExact(t *testing.T) {
	const n = 1000
	type want struct {
		call    string
		length  uint64
		segment uint32
	}
	b, control := make([]byte, 163360), segmented(16336)
	for _, by := range attachments() {
		for _, c := range []struct {
			name string
			send func(from, to *socket) error
			want want
		}{
			{"sendto", func(from, to *socket) error {
				return unix.Sendto(from.fd, b[:tooLong], 0, to.addr)
			}, want{"sendto", tooLong, 0}},
			{"segmented sendmsg", func(from, to *socket) error {
				_, err := unix.SendmsgN(from.fd, b, control, to.addr, 0)
				return err
			}, want{"sendmsg", 163360, 16336}},
			{"sendmmsg", func(from, to *socket) error {
				_, err := mmsg(unix.SYS_SENDMMSG, from, messages(to, tooLong, 1))
				return err
			}, want{"sendmmsg", tooLong, 0}},
		} {
			t.Run(string(by)+"/"+c.name, func(t *testing.T) {
				p := openBy(t, by, MetricSends)
				from, to := newSocket(t, unix.AF_INET), newSocket(t, unix.AF_INET)
				for range n {
					if err := c.send(from, to); !errors.Is(err, unix.EMSGSIZE) {
						t.Fatalf("send: %v, want EMSGSIZE", err)
					}
				}
				e, s := onlyError(t, p)
				if e.Name != "EMSGSIZE" || e.Call != c.want.call || e.Count != n || e.Unread != 0 || e.Bytes != n*c.want.length {
					t.Errorf("counted %+v, want %d times %+v", e, n, c.want)
				}
				length := uint32(c.want.length)
				if e.Shortest != length || e.Longest != length || e.LastLength != length || e.LastSegment != c.want.segment {
					t.Errorf("sizes %+v, want %+v", e, c.want)
				}
				if e.LastLocalPort != from.port {
					t.Errorf("local port %d, want %d", e.LastLocalPort, from.port)
				}
				if s.Refused != n || s.Sent != 0 || s.Bytes != 0 || s.Untracked != 0 || s.Count("EMSGSIZE") != n {
					t.Errorf("totals %+v, want %d refused", s, n)
				}
				peer := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), to.port)
				if len(s.Peers) != 1 || s.Peers[0].Peer != peer || s.Peers[0].Count != n || s.Peers[0].LastLength != length || s.Peers[0].LastSegment != c.want.segment {
					t.Errorf("peers %+v, want %d at %s", s.Peers, n, peer)
				}
			})
		}
	}
}

func TestAcceptedSendsAreExact(t *testing.T) {
	for _, by := range attachments() {
		t.Run(string(by), func(t *testing.T) {
			p := openBy(t, by, MetricSends)
			from, to := newSocket(t, unix.AF_INET), newSocket(t, unix.AF_INET)
			from.send(t, to, 10, 100)
			if n, err := mmsg(unix.SYS_SENDMMSG, from, messages(to, 1, 2, 3)); n != 3 || err != nil {
				t.Fatalf("sendmmsg: %d, %v", n, err)
			}
			if n, err := unix.SendmsgN(from.fd, make([]byte, 5000), segmented(1000), to.addr, 0); n != 5000 || err != nil {
				t.Fatalf("sendmsg: %d, %v", n, err)
			}
			s := snapshot(t, p).Sends
			if s.Sent != 14 || s.Bytes != 6006 || s.Refused != 0 {
				t.Errorf("counted %+v, want 14 messages of 6006 bytes", s)
			}
		})
	}
}

// The tracepoint fires for each message of a sendmmsg, without its place in the
// vector; and the system call hides the errno of all but the first.
func TestRefusalInsideBatch(t *testing.T) {
	p := openBy(t, AttachTracepoint, MetricSends)
	from, to := newSocket(t, unix.AF_INET), newSocket(t, unix.AF_INET)
	for _, lengths := range [][]int{
		{1, 2, tooLong, 3},
		{tooLong + 1, 4},
		{5, tooLong + 2},
		{6, 7, 8},
		{9, tooLong + 3, tooLong},
	} {
		vector := messages(to, lengths...)
		_, _ = mmsg(unix.SYS_SENDMMSG, from, vector) // each but {6, 7, 8} stops early
	}
	// Programs use a vector again: a call that stopped early leaves nothing.
	again := messages(to, 1, tooLong, 2, 3)
	for range 3 {
		_, _ = mmsg(unix.SYS_SENDMMSG, from, again) // sends one
	}
	e, s := onlyError(t, p)
	if e.Count != 7 || e.Bytes != 7*tooLong+6 || e.Unread != 0 || e.Shortest != tooLong || e.Longest != tooLong+3 || e.LastLength != tooLong {
		t.Errorf("counted %+v, want seven from %d on", e, tooLong)
	}
	if s.Sent != 10 {
		t.Errorf("%d messages sent, want 10", s.Sent)
	}
}

func TestRefusedByOtherErrnos(t *testing.T) {
	p := openBy(t, attachments()[0], MetricSends)
	from, to := newSocket(t, unix.AF_INET), newSocket(t, unix.AF_INET)
	// 129 segments are one too many; the option stands on the socket.
	from.set(t, unix.SOL_UDP, unix.UDP_SEGMENT, 100)
	for range 3 {
		if err := unix.Sendto(from.fd, make([]byte, 12900), 0, to.addr); !errors.Is(err, unix.EINVAL) {
			t.Fatalf("send: %v, want EINVAL", err)
		}
	}
	e, _ := onlyError(t, p)
	if e.Name != "EINVAL" || e.Count != 3 || e.LastLength != 12900 || e.LastSegment != 100 {
		t.Errorf("counted %+v, want 3 EINVAL of 12900 bytes in segments of 100", e)
	}
}

func TestRefusedOverIPv6AndConnected(t *testing.T) {
	if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
		t.Log("the host has no IPv6: connected IPv4 instead")
		refusedConnected(t, unix.AF_INET, "127.0.0.1", 65507)
		return
	}
	refusedConnected(t, unix.AF_INET6, "::1", 65527)
}

func refusedConnected(t *testing.T, family int, addr string, most int) {
	p := openBy(t, attachments()[0], MetricSends)
	from, to := newSocket(t, family), newSocket(t, family)
	if err := unix.Connect(from.fd, to.addr); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.SendmsgN(from.fd, make([]byte, most+1), nil, nil, 0); !errors.Is(err, unix.EMSGSIZE) {
		t.Fatalf("send: %v, want EMSGSIZE", err)
	}
	peer := netip.AddrPortFrom(netip.MustParseAddr(addr), to.port)
	if s := snapshot(t, p).Sends; len(s.Peers) != 1 || s.Peers[0].Peer != peer || s.Peers[0].LastLength != uint32(most+1) {
		t.Errorf("peers %+v, want %s with %d bytes", s.Peers, peer, most+1)
	}
}

// write(2) passes no message: the refusal counts, its length is unknown.
func TestRefusedWrite(t *testing.T) {
	p := openBy(t, AttachTracepoint, MetricSends)
	from, to := newSocket(t, unix.AF_INET), newSocket(t, unix.AF_INET)
	if err := unix.Connect(from.fd, to.addr); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Write(from.fd, make([]byte, tooLong)); !errors.Is(err, unix.EMSGSIZE) {
		t.Fatalf("write: %v, want EMSGSIZE", err)
	}
	if e, _ := onlyError(t, p); e.Call != "other" || e.Count != 1 || e.Unread != 1 || e.Shortest != 0 || e.Longest != 0 {
		t.Errorf("counted %+v, want one without a length", e)
	}
}

// More peers than fit are counted in the totals and said to be missing.
func TestPeersAreBounded(t *testing.T) {
	const peers, fit = 1100, 1024
	p := openBy(t, attachments()[0], MetricSends)
	from := newSocket(t, unix.AF_INET)
	b := make([]byte, tooLong)
	for i := range peers {
		_ = unix.Sendto(from.fd, b, 0, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: 1 + i})
	}
	e, s := onlyError(t, p)
	if e.Count != peers || s.Refused != peers || len(s.Peers) != fit || s.Untracked != peers-fit {
		t.Errorf("%d refused, %d by errno, %d peers, %d untracked: want %d, %d, %d, %d",
			s.Refused, e.Count, len(s.Peers), s.Untracked, peers, peers, fit, peers-fit)
	}
}

// portEnv tells the helper process where to send.
const portEnv = "FELIX_BPF_PORT"

// sendForeign sends 100 datagrams and is refused 100 times.
func sendForeign() error {
	port, err := strconv.Atoi(os.Getenv(portEnv))
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	to := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: port}
	for range 100 {
		if err := unix.Sendto(fd, []byte("x"), 0, to); err != nil {
			return err
		}
		if err := unix.Sendto(fd, make([]byte, tooLong), 0, to); !errors.Is(err, unix.EMSGSIZE) {
			return err
		}
	}
	return nil
}

func TestOnlyOwnUDPSendsCount(t *testing.T) {
	for _, by := range attachments() {
		t.Run(string(by), func(t *testing.T) {
			p := openBy(t, by, MetricSends)
			to := newSocket(t, unix.AF_INET)
			if err := helper("send", portEnv+"="+strconv.Itoa(int(to.port))).Run(); err != nil {
				t.Fatal(err)
			}
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := unix.Sendto(pair[0], []byte("x"), 0, nil); err != nil {
				t.Fatal(err)
			}
			unix.Close(pair[0])
			unix.Close(pair[1])
			newSocket(t, unix.AF_INET).send(t, to, 1, 1)
			if s := snapshot(t, p).Sends; s.Sent != 1 || s.Refused != 0 || len(s.Peers) != 0 {
				t.Errorf("counted %+v, want the one own datagram", s)
			}
		})
	}
}
