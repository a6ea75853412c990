package session

import (
	"container/list"
	"sync"
)

// smallHold is up to how many bytes a frame or a reply is not charged for.
const smallHold = 16 << 10

// memory bounds what large frames, or large replies, hold in the whole process,
// and by a share in each connection.
//
// Whoever finds no room waits in turn. So that those who wait for each other all
// get on, one hold of each share may exceed the share's limit, and one of those
// the limit of the process: that one never waits, and the others have their turn
// when it is given back. A hold may exceed the limit of the process only if it
// may exceed its share's, or else each could wait for the other.
type memory struct {
	limit int64

	mu     sync.Mutex
	used   int64
	over   *hold     // may exceed limit
	queued list.List // *share: those with somebody waiting, next turn first
}

// share is the part of a connection.
type share struct {
	mem   *memory
	limit int64

	// Guarded by mem.mu.
	used    int64
	over    *hold
	waiting list.List     // *claim
	place   *list.Element // in mem.queued, nil if nobody waits
}

// hold is what one frame or one stream's replies have taken. It is used by one
// goroutine at a time, except for give.
type hold struct {
	share *share
	bytes int64 // guarded by share.mem.mu
}

// claim is a hold waiting for n more bytes.
type claim struct {
	hold    *hold
	n       int64
	granted chan struct{}
}

func newMemory(limit int64) *memory { return &memory{limit: limit} }

func (m *memory) share(limit int64) *share { return &share{mem: m, limit: limit} }

// take adds n bytes to the hold and waits for room if need be. Before it waits
// it calls onWait, which may be nil. It gives up, with false, when one of the
// two channels is closed.
func (h *hold) take(n int64, onWait func(), gone, stop <-chan struct{}) bool {
	m := h.share.mem
	if h.try(n) {
		return true
	}
	if onWait != nil {
		onWait()
	}
	c, place := h.queue(n)
	select {
	case <-c.granted:
		return true
	case <-gone:
	case <-stop:
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-c.granted:
		return true // the grant came first
	default:
	}
	h.share.leave(place)
	m.serve() // those behind may fit
	return false
}

// try is take without a wait.
func (h *hold) try(n int64) bool {
	m := h.share.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	return (h.share.waiting.Len() == 0 || h.share.over == h) && h.grant(n)
}

// queue puts a claim into its place: the hold that may exceed the share's limit
// goes first, for the others wait for it.
func (h *hold) queue(n int64) (*claim, *list.Element) {
	m, s := h.share.mem, h.share
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &claim{hold: h, n: n, granted: make(chan struct{})}
	place := s.waiting.PushBack(c)
	if s.over == h {
		s.waiting.MoveToFront(place)
	}
	if s.place == nil {
		s.place = m.queued.PushBack(s)
	}
	m.serve()
	return c, place
}

// leave takes a claim out of the queue. m.mu is held.
func (s *share) leave(place *list.Element) {
	s.waiting.Remove(place)
	if s.waiting.Len() == 0 {
		s.mem.queued.Remove(s.place)
		s.place = nil
	}
}

// grant takes n bytes if there is room, or if the hold may do without. m.mu is
// held.
func (h *hold) grant(n int64) bool {
	s, m := h.share, h.share.mem
	overShare := s.used+n > s.limit
	overAll := m.used+n > m.limit
	if (overShare || overAll) && s.over != nil && s.over != h {
		return false
	}
	if overAll && m.over != nil && m.over != h {
		return false
	}
	if overShare || overAll {
		s.over = h
	}
	if overAll {
		m.over = h
	}
	h.bytes += n
	s.used += n
	m.used += n
	return true
}

// give returns n bytes of the hold.
func (h *hold) give(n int64) {
	m := h.share.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	h.put(n)
}

// giveAll returns everything.
func (h *hold) giveAll() {
	m := h.share.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	h.put(h.bytes)
}

// put gives n bytes back and serves those who wait. m.mu is held.
func (h *hold) put(n int64) {
	s, m := h.share, h.share.mem
	h.bytes -= n
	s.used -= n
	m.used -= n
	if h.bytes == 0 {
		if s.over == h {
			s.over = nil
		}
		if m.over == h {
			m.over = nil
		}
	}
	m.serve()
}

// serve grants what can be granted, one claim of each share in turn. m.mu is
// held.
func (m *memory) serve() {
	for refused := 0; refused < m.queued.Len(); {
		first := m.queued.Front()
		s := first.Value.(*share)
		m.queued.MoveToBack(first)
		place := s.waiting.Front()
		c := place.Value.(*claim)
		if !c.hold.grant(c.n) {
			refused++
			continue
		}
		refused = 0
		close(c.granted)
		s.leave(place)
	}
}
