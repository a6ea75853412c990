package transport

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// connSet holds the connections of an endpoint until they end, and watches the paths of those whose packet size is not
// certain to arrive for ever.
type connSet struct {
	log       *slog.Logger
	interval  time.Duration // between two looks at the paths
	patience  time.Duration // until a path is given up
	pathsLost atomic.Uint64
	stop      chan struct{} // closed by closeAll
	watcher   sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	watching bool
	all      map[*Conn]struct{}
}

func newConnSet(log *slog.Logger) *connSet {
	return &connSet{
		log:      log,
		interval: pathInterval,
		patience: pathPatience,
		stop:     make(chan struct{}),
		all:      make(map[*Conn]struct{}),
	}
}

// add registers a connection until it ends and returns how many there are now.
func (s *connSet) add(c *Conn) int {
	s.mu.Lock()
	s.all[c] = struct{}{}
	n := len(s.all)
	if !s.watching && !s.closed && !c.size.certain {
		s.watching = true
		s.watcher.Go(s.watch)
	}
	s.mu.Unlock()
	context.AfterFunc(c.ctx, func() {
		s.mu.Lock()
		delete(s.all, c)
		s.mu.Unlock()
	})
	return n
}

func (s *connSet) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// closeAll closes every connection with code 0 and returns when all have ended.
func (s *connSet) closeAll() {
	var closing sync.WaitGroup
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.stop)
	}
	for c := range s.all {
		closing.Go(func() { _ = c.CloseWithError(0, "") }) // always nil
	}
	s.mu.Unlock()
	closing.Wait()
	s.watcher.Wait()
}

// watch looks at the paths until no connection is left to look at.
func (s *connSet) watch() {
	tick := time.NewTicker(s.interval)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case now := <-tick.C:
			if !s.checkPaths(now) {
				return
			}
		}
	}
}

// checkPaths closes the connections whose path has become unusable. It returns false, and ends the watch, when there
// is nothing left to watch.
func (s *connSet) checkPaths(now time.Time) bool {
	var lost []*Conn
	s.mu.Lock()
	s.watching = false
	for c := range s.all {
		if c.size.certain {
			continue
		}
		s.watching = true
		if c.path.lost(now, s.patience, c.pathCounters()) {
			lost = append(lost, c)
		}
	}
	more := s.watching
	s.mu.Unlock()
	for _, c := range lost {
		s.giveUp(c)
	}
	return more
}

func (s *connSet) giveUp(c *Conn) {
	s.pathsLost.Add(1)
	if s.log != nil {
		s.log.Warn("path has become too narrow for its packets, connection closed",
			slog.String("peer", c.RemoteAddr().String()))
	}
	_ = c.CloseWithError(CodePathUnusable, "packets of the size in use no longer arrive; connect again") // always nil
}
