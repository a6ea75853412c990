package bpf

// Receives are the UDP receives of this process.
type Receives struct {
	// Sockets is ordered by falling number of receives. Up to 256 sockets fit;
	// [Probes.Unwatch] gives the place of a closed one back.
	Sockets []SocketReceives `json:"sockets"`
}

// SocketReceives is one socket. A receive is one message taken from the socket:
// one datagram, or several that arrived merged (see [GRO]).
type SocketReceives struct {
	// Cookie is the kernel's id of the socket (SO_COOKIE). Attached by
	// sys_exit, sockets that nobody watches share the cookie 0 and port 0.
	Cookie    uint64 `json:"cookie"`
	LocalPort uint16 `json:"local_port"`
	Receives  uint64 `json:"receives"`
	Bytes     uint64 `json:"bytes"`
	// Wakeups are the times that the socket was read until it was empty.
	Wakeups uint64 `json:"wakeups"`
	// Empty are reads that found nothing although nothing was read since the
	// last empty one: wakeups for nothing, or the second look of a recvmmsg.
	Empty uint64 `json:"empty"`
	// PerWakeup are the receives of each wakeup (between two EAGAIN).
	PerWakeup Histogram `json:"per_wakeup"`
}

// Socket returns the socket with the given cookie, the zero value if it has not
// received anything.
func (r *Receives) Socket(cookie uint64) SocketReceives {
	for _, s := range r.Sockets {
		if s.Cookie == cookie {
			return s
		}
	}
	return SocketReceives{Cookie: cookie}
}

func (r *Receives) sub(o *Receives) *Receives {
	return &Receives{Sockets: subtract(r.Sockets, o.Sockets,
		func(s SocketReceives) uint64 { return s.Cookie }, subReceives)}
}

func subReceives(a, b SocketReceives) (SocketReceives, bool) {
	a.Receives = since(a.Receives, b.Receives)
	a.Bytes = since(a.Bytes, b.Bytes)
	a.Wakeups = since(a.Wakeups, b.Wakeups)
	a.Empty = since(a.Empty, b.Empty)
	a.PerWakeup = a.PerWakeup.Sub(b.PerWakeup)
	return a, a.Receives > 0 || a.Empty > 0
}
