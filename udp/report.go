package udp

import "iter"

// Grant is what the kernel gave of one socket buffer. Sizes are bytes of
// payload and bookkeeping as asked for, not the doubled figure of Linux.
type Grant struct {
	Asked, Granted int
	Forced         bool   // granted beyond the host's limit (CAP_NET_ADMIN)
	Limit          string // the sysctl that cut the request down, "" when granted in full
	LimitBytes     int    // its value, 0 when it could not be read
}

// Buffers are the grants of both directions.
type Buffers struct{ Read, Write Grant }

// Feature tells whether a socket uses an optional feature, and if not, why.
type Feature struct {
	Active bool
	Reason string
}

// Capabilities tell which features a socket uses now.
type Capabilities struct {
	GSO, GRO, SendMMsg, RecvMMsg, ECN, DontFragment Feature
	MaxSegments                                    int // datagrams a segmented send may hold; 1 without GSO
}

// Counter identifies one counter of a socket.
type Counter uint8

const numCounters = 0

// Name returns the snake_case name of the counter.
func (c Counter) Name() string { return "" }

// Doc returns the sentence that explains the counter.
func (c Counter) Doc() string { return "" }

// Stats is a snapshot of a socket's counters.
type Stats struct{ v [numCounters]uint64 }

// Get returns one counter.
func (s *Stats) Get(c Counter) uint64 { return s.v[c] }

// All yields every counter in declaration order.
func (s *Stats) All() iter.Seq2[Counter, uint64] {
	return func(yield func(Counter, uint64) bool) {
		for i, v := range s.v {
			if !yield(Counter(i), v) {
				return
			}
		}
	}
}
