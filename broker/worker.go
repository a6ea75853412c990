package broker

import "sync"

// maxRunJobs and maxRunBytes bound what a worker publishes of one stream before
// the next stream gets its turn. They bound how long a stream's lock is held and
// by how much a queue with PolicyBlock can exceed its bounds, not throughput:
// taking a turn costs well under a microsecond.
const (
	maxRunJobs  = 512
	maxRunBytes = 1 << 20
)

// worker publishes what was submitted to the streams it owns.
type worker struct {
	id      int
	wakeups *WakeupHistogram

	mu        sync.Mutex
	wake      sync.Cond
	ready     []*Stream // in the order they became ready, each once
	scheduled int       // streams whose lane.scheduled is set
	stopping  bool

	// Used by run alone.
	turns   []*Stream
	scratch []Delivery
}

func newWorker(id int, wakeups *WakeupHistogram) *worker {
	w := &worker{id: id, wakeups: wakeups}
	w.wake.L = &w.mu
	return w
}

// schedule is called when a lane goes from idle to having jobs.
func (w *worker) schedule(s *Stream) {
	w.mu.Lock()
	w.scheduled++
	w.push(s)
	w.mu.Unlock()
}

// unschedule is called when a lane has become idle.
func (w *worker) unschedule() {
	w.mu.Lock()
	w.scheduled--
	w.mu.Unlock()
}

// poke gives s a turn, which is harmless if there is nothing to do.
func (w *worker) poke(s *Stream) {
	w.mu.Lock()
	w.push(s)
	w.mu.Unlock()
}

func (w *worker) push(s *Stream) {
	if s.ready {
		return
	}
	s.ready = true
	w.ready = append(w.ready, s)
	w.wake.Signal()
}

// stop lets run return once no stream is scheduled any more.
func (w *worker) stop() {
	w.mu.Lock()
	w.stopping = true
	w.wake.Signal()
	w.mu.Unlock()
}

func (w *worker) run() {
	items := 0 // since the last wakeup
	for {
		w.mu.Lock()
		for len(w.ready) == 0 {
			if w.stopping && w.scheduled == 0 {
				w.mu.Unlock()
				return
			}
			w.wakeups.Record(items)
			items = 0
			w.wake.Wait()
		}
		w.ready, w.turns = w.turns[:0], w.ready
		for _, s := range w.turns {
			s.ready = false
		}
		w.mu.Unlock()
		for _, s := range w.turns {
			items += s.turn(w)
		}
		clear(w.turns)
	}
}

// finish gives back what a run held and tells those who wait for it.
func (w *worker) finish(s *Stream, run []job, err error) {
	var bytes, connBytes int64
	var account *Account
	for i := range run {
		j := &run[i]
		n := j.charge()
		bytes += n
		if j.account != account {
			account.giveBack(connBytes)
			account, connBytes = j.account, 0
		}
		connBytes += n
	}
	account.giveBack(connBytes)
	s.broker.inflight.release(bytes)
	s.lane.slots.release(int64(len(run)))
	for i := range run {
		if j := &run[i]; j.completer != nil {
			j.completer.Complete(j.token, err)
		}
	}
	clear(run)
}

func (a *Account) giveBack(n int64) {
	if a != nil {
		a.bytes.release(n)
	}
}
