package broker

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// Broker holds the registry, the ingress workers and the caches. Make one with
// New and end it with Close.
type Broker struct {
	opts     Options
	inflight budget // frame bytes
	workers  []*worker
	closeOne sync.Once
	closing  atomic.Bool   // Close has begun
	done     chan struct{} // closed with it
	running  atomic.Int32  // workers
	drained  chan struct{} // closed when the workers have ended

	nextSubID     atomic.Uint64
	subscriptions atomic.Int64
	events        [numEvents]atomic.Uint64

	recording   atomic.Bool
	feedWakeups *WakeupHistogram
	stagesMu    sync.Mutex
	stages      []*WakeupHistogram

	cache cacheStore

	mu         sync.RWMutex // registry; see docs/lock-order.md
	closed     bool
	tenants    map[string]*tenant
	streams    map[uint64]*Stream // by handle
	leaving    map[uint64]*Stream // deleted, with queues that are not empty yet
	caches     int
	nextHandle uint64
	retired    Counts // of streams that are gone
}

// New starts a broker with o.Workers goroutines, which end with Close.
func New(o Options) *Broker {
	o = o.withDefaults()
	b := &Broker{
		opts:     o,
		inflight: budget{limit: o.InflightBytes},
		done:     make(chan struct{}),
		drained:  make(chan struct{}),
		tenants:  make(map[string]*tenant),
		streams:  make(map[uint64]*Stream),
		leaving:  make(map[uint64]*Stream),
	}
	b.cache.init(b)
	ingress := b.Stage("ingress", "Publications an ingress worker handled between waking up and parking again.")
	b.feedWakeups = b.Stage("feed", "Event frames a subscription's reader took out of its queue at once.")
	b.running.Store(int32(o.Workers))
	for i := range o.Workers {
		w := newWorker(i, ingress)
		b.workers = append(b.workers, w)
		go func() {
			w.run()
			if b.running.Add(-1) == 0 {
				close(b.drained)
			}
		}()
	}
	return b
}

// Options returns the settings in force.
func (b *Broker) Options() Options { return b.opts }

func (b *Broker) count(e Event) { b.events[e].Add(1) }

// Close stops admission, lets the workers publish what was accepted, and ends
// all subscriptions: their readers get what is queued, then io.EOF. When ctx
// ends first (only subscribers with PolicyBlock can hold the workers up), the
// publications still waiting are completed with ErrQueueClosed, and Close
// returns the context's error. Every accepted publication has been completed
// when Close returns. Later calls wait for the first one's work to end.
func (b *Broker) Close(ctx context.Context) error {
	b.closeOne.Do(func() {
		b.closing.Store(true)
		close(b.done)
		b.mu.Lock()
		b.closed = true
		b.mu.Unlock()
		// From here on no stream is created. Taking each lane's lock once means
		// that no Submit is still on its way in.
		for _, s := range b.allStreams() {
			s.lane.mu.Lock()
			s.lane.mu.Unlock() //nolint:staticcheck // the empty section is the barrier
		}
		for _, w := range b.workers {
			w.stop()
		}
	})
	var err error
	select {
	case <-b.drained:
	case <-ctx.Done():
		err = fmt.Errorf("broker: close: %w", context.Cause(ctx))
		for _, s := range b.allStreams() {
			s.abandon(ErrQueueClosed)
		}
		<-b.drained
	}
	for _, s := range b.allStreams() {
		s.finishSubscriptions()
	}
	return err
}

// allStreams returns the registered streams and those that are on their way out.
func (b *Broker) allStreams() []*Stream {
	b.mu.RLock()
	defer b.mu.RUnlock()
	all := make([]*Stream, 0, len(b.streams)+len(b.leaving))
	for _, s := range b.streams {
		all = append(all, s)
	}
	for _, s := range b.leaving {
		all = append(all, s)
	}
	return all
}
