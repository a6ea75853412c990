package bpf

import "net/netip"

// Sends are the UDP sends of this process, all its sockets together. A message
// is one datagram, or one aggregate if the kernel segments it.
type Sends struct {
	// Sent are the messages that the kernel took, Bytes their payload.
	Sent  uint64 `json:"sent"`
	Bytes uint64 `json:"bytes"`
	// Refused are the messages that it did not take, EAGAIN (the send buffer is
	// full) included.
	Refused uint64 `json:"refused"`
	// Untracked are refusals that did not fit into Errors (128 kinds) or Peers
	// (1024 peers). Refused counts them all the same.
	Untracked uint64 `json:"untracked"`
	// Errors and Peers are ordered by falling count.
	Errors []SendError  `json:"errors"`
	Peers  []PeerErrors `json:"peers"`
}

// SendError counts the messages that were refused with one errno in one kind of
// system call. Sizes are payload bytes. Count is exact; under concurrent
// refusals of one kind the shortest, longest and last values are those of
// some of them.
type SendError struct {
	Errno int `json:"errno"`
	// Name is the errno's name, such as EMSGSIZE.
	Name string `json:"name"`
	// Call is sendto, sendmsg, sendmmsg or other.
	Call  string `json:"call"`
	Count uint64 `json:"count"`
	// Bytes sums the attempted lengths; Unread are attempts whose length could
	// not be read and which the fields below do not cover.
	Bytes    uint64 `json:"bytes"`
	Unread   uint64 `json:"unread"`
	Shortest uint32 `json:"shortest"`
	Longest  uint32 `json:"longest"`
	// LastLength and LastSegment describe the latest attempt; segment 0 means
	// that it was not to be segmented.
	LastLength    uint32 `json:"last_length"`
	LastSegment   uint32 `json:"last_segment"`
	LastLocalPort uint16 `json:"last_local_port"`
}

// PeerErrors counts the messages to one destination that were refused with one
// errno. The destination is :: when it could not be read.
type PeerErrors struct {
	Peer        netip.AddrPort `json:"peer"`
	Errno       int            `json:"errno"`
	Name        string         `json:"name"`
	Count       uint64         `json:"count"`
	LastLength  uint32         `json:"last_length"`
	LastSegment uint32         `json:"last_segment"`
}

// Count returns how many messages were refused with the named errno, such as
// "EMSGSIZE".
func (s *Sends) Count(name string) uint64 {
	var n uint64
	for _, e := range s.Errors {
		if e.Name == name {
			n += e.Count
		}
	}
	return n
}

func (s *Sends) sub(o *Sends) *Sends {
	return &Sends{
		Sent:      since(s.Sent, o.Sent),
		Bytes:     since(s.Bytes, o.Bytes),
		Refused:   since(s.Refused, o.Refused),
		Untracked: since(s.Untracked, o.Untracked),
		Errors:    subtract(s.Errors, o.Errors, sendErrorKey, subSendError),
		Peers:     subtract(s.Peers, o.Peers, peerErrorsKey, subPeerErrors),
	}
}

func sendErrorKey(e SendError) SendError { return SendError{Errno: e.Errno, Call: e.Call} }

// subSendError keeps the sizes of a: the kernel does not know since when.
func subSendError(a, b SendError) (SendError, bool) {
	a.Count = since(a.Count, b.Count)
	a.Bytes = since(a.Bytes, b.Bytes)
	a.Unread = since(a.Unread, b.Unread)
	return a, a.Count > 0
}

func peerErrorsKey(e PeerErrors) PeerErrors { return PeerErrors{Peer: e.Peer, Errno: e.Errno} }

func subPeerErrors(a, b PeerErrors) (PeerErrors, bool) {
	a.Count = since(a.Count, b.Count)
	return a, a.Count > 0
}
