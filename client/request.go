package client

import (
	"encoding/binary"
	"errors"
	"fmt"

	"felix/wire"
)

// request is one publish frame on its way. It belongs to its owner before submit and after done, and to the publish
// stream in between.
type request struct {
	// frame is the whole binary frame. The stream fills in the request id.
	frame []byte
	flags wire.Flags
	count int // messages
	bytes int // payload bytes
	owner requestOwner

	id      uint64
	out     []byte // what is written: frame, or its translation for an older broker
	writing bool   // handed to the QUIC stream
	began   bool   // some of it may have been written
	settled bool   // the result is known, but it is still being written
	result  error
}

// requestOwner is told the result of a request, exactly once.
type requestOwner interface {
	// done is called with a lock held: it must neither block nor use the publish stream.
	done(r *request, err error)
}

func (r *request) acked() bool { return r.flags.Has(wire.FlagPublishAcked) }

// size is what the request takes of the room of its stream.
func (r *request) size() int64 { return int64(len(r.frame)) }

// errNotSent marks errors of requests of which nothing was written: sending them again cannot double a message.
var errNotSent = errors.New("nothing was sent")

// notSent reports whether a request that failed with err was not sent at all.
func notSent(err error) bool { return errors.Is(err, errNotSent) }

// unsentError is the failure of a request that was not sent.
type unsentError struct{ err error }

func (e *unsentError) Error() string   { return e.err.Error() }
func (e *unsentError) Unwrap() []error { return []error{e.err, errNotSent} }

// number gives the request its id and prepares what is written for a broker that knows the given flags.
func (r *request) number(id uint64, broker wire.Flags, limit int) error {
	r.id, r.out = id, r.frame
	if r.acked() {
		binary.BigEndian.PutUint64(r.frame[wire.HeaderLen:], id)
	}
	missing := r.flags &^ (broker | wire.LegacyFlags)
	if missing == 0 {
		return nil
	}
	b, err := wire.ParsePublishBatch(r.flags, r.frame[wire.HeaderLen:])
	if err != nil {
		return fmt.Errorf("felix: publish: %w", err)
	}
	if missing.Has(wire.FlagPublishAcked) {
		return r.translate(b, limit)
	}
	return r.dropKey(b)
}

// dropKey leaves the key out: a broker that does not know keys has one shard and would ignore it.
func (r *request) dropKey(b wire.PublishBatch) (err error) {
	r.out, err = wire.AppendPublishBatch(nil, wire.PublishHeader{
		TenantID: string(b.TenantID), Namespace: string(b.Namespace), Stream: string(b.Stream),
		Acked: b.Acked, RequestID: b.RequestID, Ack: b.Ack,
	}, collect(b.Items))
	return err
}

// translate makes the JSON message for a broker without binary acknowledgements.
func (r *request) translate(b wire.PublishBatch, limit int) (err error) {
	r.out, err = wire.AppendMessageFrame(nil, &wire.PublishBatchJSON{
		TenantID: string(b.TenantID), Namespace: string(b.Namespace), Stream: string(b.Stream),
		Payloads: collect(b.Items), RequestID: &r.id, Ack: b.Ack,
	})
	if size := len(r.out) - wire.HeaderLen; err == nil && size > limit {
		return &TooLargeError{Size: size, Limit: limit}
	}
	return err
}

func collect(items wire.Items) [][]byte {
	list := make([][]byte, 0, items.Len())
	for p := range items.All() {
		list = append(list, p)
	}
	return list
}

// unanswered holds the acked requests of a stream from the oldest one without an answer on. Their ids are consecutive, so
// an answer is found without searching even if answers come out of order.
type unanswered struct {
	list []*request // nil: answered
	head int        // list[:head] is gone
}

// oldest returns the first request that waits for its answer, nil if there is none.
func (u *unanswered) oldest() *request {
	if u.head == len(u.list) {
		return nil
	}
	return u.list[u.head]
}

func (u *unanswered) push(r *request) {
	if u.head > len(u.list)/2 && u.head > 32 {
		n := copy(u.list, u.list[u.head:])
		clear(u.list[n:])
		u.list, u.head = u.list[:n], 0
	}
	u.list = append(u.list, r)
}

// take removes and returns the request with the given id, nil if it does not wait for an answer.
func (u *unanswered) take(id uint64) *request {
	oldest := u.oldest()
	if oldest == nil || id < oldest.id || id-oldest.id >= uint64(len(u.list)-u.head) {
		return nil
	}
	i := u.head + int(id-oldest.id)
	r := u.list[i]
	u.list[i] = nil
	for u.head < len(u.list) && u.list[u.head] == nil {
		u.head++
	}
	if u.head == len(u.list) {
		u.list, u.head = u.list[:0], 0
	}
	return r
}

// all removes and returns the requests that wait, in order.
func (u *unanswered) all() []*request {
	var rest []*request
	for _, r := range u.list[u.head:] {
		if r != nil {
			rest = append(rest, r)
		}
	}
	u.list, u.head = nil, 0
	return rest
}
