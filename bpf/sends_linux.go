//go:build amd64 || arm64

package bpf

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"syscall"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

var sendsProbe = &probe{
	metric: MetricSends,
	variants: []variant{
		{
			attachment: AttachTracepoint,
			programs:   []string{objectsProgFelixSend},
			scratch:    []string{objectsMapFelixSendmmsg},
		},
		{
			attachment: AttachSyscallExit,
			limits:     "not seen: the errno of a later message of a sendmmsg, write(2) on sockets, io_uring",
			programs:   []string{objectsProgFelixSysSend},
		},
	},
	maps: []string{objectsMapFelixSends, objectsMapFelixRefused, objectsMapFelixPeers},
	read: readSends,
}

// sendCalls are in the order of enum send_call.
var sendCalls = [...]string{"other", "sendto", "sendmsg", "sendmmsg"}

func readSends(m map[string]*ebpf.Map, s *Snapshot) error {
	sum, err := single[objectsSends](m, objectsMapFelixSends)
	if err != nil {
		return err
	}
	refused, err := entries[objectsRefusalKey, objectsRefusal](m, objectsMapFelixRefused)
	if err != nil {
		return err
	}
	peers, err := entries[objectsPeerKey, objectsPeerRefusal](m, objectsMapFelixPeers)
	if err != nil {
		return err
	}
	s.Sends = &Sends{
		Sent: sum.Sent, Bytes: sum.Bytes, Refused: sum.Refused, Untracked: sum.Untracked,
		Errors: sendErrors(refused), Peers: peerErrors(peers),
	}
	return nil
}

func sendErrors(raw map[objectsRefusalKey]objectsRefusal) []SendError {
	out := make([]SendError, 0, len(raw))
	for k, v := range raw {
		e := SendError{
			Errno: int(k.Error), Name: errnoName(k.Error), Call: named(sendCalls[:], k.Call),
			Count: v.Count, Bytes: v.Bytes, Unread: v.Unread, Longest: v.Longest,
			LastLength: v.LastLength, LastSegment: v.LastSegment, LastLocalPort: uint16(v.LastLocalPort),
		}
		if v.Count > v.Unread { // before the first length was read it is the largest number
			e.Shortest = v.Shortest
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b SendError) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Errno, b.Errno), cmp.Compare(a.Call, b.Call))
	})
	return out
}

func peerErrors(raw map[objectsPeerKey]objectsPeerRefusal) []PeerErrors {
	out := make([]PeerErrors, 0, len(raw))
	for k, v := range raw {
		addr := netip.AddrFrom16(k.Address).Unmap()
		out = append(out, PeerErrors{
			Peer: netip.AddrPortFrom(addr, uint16(k.Port)), Errno: int(k.Error), Name: errnoName(k.Error),
			Count: v.Count, LastLength: v.LastLength, LastSegment: v.LastSegment,
		})
	}
	slices.SortFunc(out, func(a, b PeerErrors) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), a.Peer.Compare(b.Peer), cmp.Compare(a.Errno, b.Errno))
	})
	return out
}

func errnoName(errno uint32) string {
	if n := unix.ErrnoName(syscall.Errno(errno)); n != "" {
		return n
	}
	return "errno " + strconv.Itoa(int(errno))
}
