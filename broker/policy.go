package broker

import "fmt"

// Policy says what happens to a frame that does not fit a subscription's queue.
// A frame always fits an empty queue, whatever its size.
type Policy uint8

const (
	// PolicyDropNew drops the frame that does not fit and keeps the queue.
	PolicyDropNew Policy = iota
	// PolicyBlock drops nothing. When a run of publications (at most 512, or the
	// first 1 MiB) takes the queue over its bounds, the stream is stalled: the
	// run is not completed, stays charged to its publishers, and nothing more of
	// the stream is published until the queue is within its bounds again or the
	// subscription ends. Other streams go on.
	PolicyBlock
	// PolicyDropOld drops frames from the head of the queue until the new one
	// fits.
	PolicyDropOld
)

var policyNames = [...]string{PolicyDropNew: "drop_new", PolicyBlock: "block", PolicyDropOld: "drop_old"}

// String returns drop_new, block or drop_old.
func (p Policy) String() string {
	if int(p) < len(policyNames) {
		return policyNames[p]
	}
	return fmt.Sprintf("policy(%d)", uint8(p))
}

// ParsePolicy is the inverse of Policy.String.
func ParsePolicy(s string) (Policy, error) {
	for p, name := range policyNames {
		if s == name {
			return Policy(p), nil
		}
	}
	return 0, fmt.Errorf("broker: unknown queue policy %q (want drop_new, block or drop_old)", s)
}
