package transport

import "sync/atomic"

// receiveBudget bounds the growth of the connection windows of an endpoint.
type receiveBudget struct {
	used    atomic.Int64
	refused atomic.Uint64
}

// take charges delta bytes to a connection, or refuses when limit would be exceeded. A negative limit is none.
func (b *receiveBudget) take(a *attempt, delta, limit int64) bool {
	if b.used.Add(delta) > limit && limit >= 0 {
		b.used.Add(-delta)
		b.refused.Add(1)
		return false
	}
	a.extra.Add(delta)
	return true
}

// release gives back all that a connection was charged. The connection must have ended.
func (b *receiveBudget) release(a *attempt) { b.used.Add(-a.extra.Swap(0)) }
