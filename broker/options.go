package broker

import "time"

// Options are the settings of a Broker. In every numeric field zero means the
// value of DefaultOptions; where a field can be switched off, a negative value
// does so.
type Options struct {
	// Workers is the number of ingress workers. A stream belongs to the worker
	// with the number of its handle modulo Workers.
	Workers int
	// WorkerQueueDepth bounds the publications that one stream may have waiting
	// at its worker.
	WorkerQueueDepth int
	// InflightBytes bounds the frame bytes of accepted publications of the whole
	// process that have not reached the subscription queues yet. A single larger
	// frame is admitted when nothing else is in flight.
	InflightBytes int64
	// ConnInflightBytes is the same bound for one Account.
	ConnInflightBytes int64
	// QueueWait is how long Submit waits in all with WaitBounded.
	QueueWait time.Duration
	// CommitWait is how long a publisher that asked for a commit should be kept
	// waiting for Completer.Complete before it is told ErrCommitTimeout. The
	// broker does not enforce it: it would take one timer per publication, and
	// the reply writer waits in order anyway.
	CommitWait time.Duration

	// RingEntries is the number of newest events a stream keeps for replay;
	// negative keeps none.
	RingEntries int
	// RingBytes bounds the frame bytes that those events hold. The newest frame
	// is kept even when it alone is larger.
	RingBytes int64

	// SubQueueBatches bounds the frames waiting in one subscription's queue.
	SubQueueBatches int
	// SubQueueBytes bounds their bytes.
	SubQueueBytes int64
	// SubPolicy is what happens to a frame that does not fit.
	SubPolicy Policy
	// MaxSubscriptionsPerConn bounds the open subscriptions of one Account.
	MaxSubscriptionsPerConn int

	// EventBatchMaxEvents is the most events one event frame carries. A larger
	// publish batch is split, once for all subscribers.
	EventBatchMaxEvents int
	// EventBatchMaxBytes is the most payload bytes one event frame carries. A
	// single larger payload goes alone.
	EventBatchMaxBytes int

	// AutoCreate makes a stream or cache on first use, provided that its tenant
	// and namespace exist.
	AutoCreate bool
	// MaxStreams and MaxCaches bound how many can exist.
	MaxStreams int
	MaxCaches  int
	// MaxNameBytes bounds each part of a Key that is created. The wire can carry
	// 65535 bytes, and no more is ever taken.
	MaxNameBytes int
	// CacheMaxBytes bounds keys, values and the fixed cost of the entries of all
	// caches together.
	CacheMaxBytes int64
}

// DefaultOptions returns the settings that a zero Options stands for. Queues
// are bounded by bytes first: the counts are so high that a subscriber which
// reads loses nothing, however small its messages are.
func DefaultOptions() Options {
	return Options{
		Workers:                 4,
		WorkerQueueDepth:        65536,
		InflightBytes:           64 << 20,
		ConnInflightBytes:       16 << 20,
		QueueWait:               2 * time.Second,
		CommitWait:              2 * time.Second,
		RingEntries:             1024,
		RingBytes:               32 << 20,
		SubQueueBatches:         65536,
		SubQueueBytes:           64 << 20,
		SubPolicy:               PolicyDropNew,
		MaxSubscriptionsPerConn: 4096,
		EventBatchMaxEvents:     1024,
		EventBatchMaxBytes:      1 << 20,
		MaxStreams:              65536,
		MaxCaches:               65536,
		MaxNameBytes:            1024,
		CacheMaxBytes:           1 << 30,
	}
}

func (o Options) withDefaults() Options {
	d := DefaultOptions()
	orInt(&o.Workers, d.Workers)
	orInt(&o.WorkerQueueDepth, d.WorkerQueueDepth)
	orInt(&o.InflightBytes, d.InflightBytes)
	orInt(&o.ConnInflightBytes, d.ConnInflightBytes)
	orInt(&o.SubQueueBatches, d.SubQueueBatches)
	orInt(&o.SubQueueBytes, d.SubQueueBytes)
	orInt(&o.MaxSubscriptionsPerConn, d.MaxSubscriptionsPerConn)
	orInt(&o.EventBatchMaxEvents, d.EventBatchMaxEvents)
	orInt(&o.EventBatchMaxBytes, d.EventBatchMaxBytes)
	orInt(&o.MaxStreams, d.MaxStreams)
	orInt(&o.MaxCaches, d.MaxCaches)
	orInt(&o.MaxNameBytes, d.MaxNameBytes)
	orInt(&o.CacheMaxBytes, d.CacheMaxBytes)
	orInt(&o.RingBytes, d.RingBytes)
	if o.RingEntries == 0 {
		o.RingEntries = d.RingEntries
	}
	if o.QueueWait <= 0 {
		o.QueueWait = d.QueueWait
	}
	if o.CommitWait <= 0 {
		o.CommitWait = d.CommitWait
	}
	return o
}

func orInt[T int | int64](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// StreamOptions are the settings of one stream. Zero fields take the broker's.
type StreamOptions struct {
	// RingEntries and RingBytes as in Options.
	RingEntries int
	RingBytes   int64
}
