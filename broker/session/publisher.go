package session

import (
	"context"
	"errors"

	"felix/broker"
	"felix/broker/auth"
	"felix/wire"
)

// publisher resolves and submits the publishes of one client-opened stream. It
// is used by the goroutine that reads the stream.
type publisher struct {
	conn    *connection
	tenant  string
	grants  *auth.Grants
	targets map[targetName]*target
	last    *target
	onWait  func() // called before a publish waits for room; may be nil
}

// targetName names a stream within the publisher's tenant.
type targetName struct{ namespace, stream string }

// target is a stream that was published to before, so that the permission and
// the registry are not looked at for every batch.
type target struct {
	name    targetName
	allowed bool
	stream  *broker.Stream // nil: not known, or no longer active
}

// maxTargets bounds the streams that a publisher remembers, maxRemembered the
// bytes of the names of one; longer ones are looked up every time.
const (
	maxTargets    = 1024
	maxRemembered = 512
)

func newPublisher(c *connection, grants *auth.Grants) *publisher {
	return &publisher{conn: c, tenant: grants.Tenant(), grants: grants, targets: make(map[targetName]*target)}
}

// resolve finds the target of a publish. A text other than "" says that it is
// not allowed; then there is no target.
func (p *publisher) resolve(tenant, namespace, stream []byte) (*target, string) {
	if string(tenant) != p.tenant {
		p.conn.server.count.add(Forbidden, 1)
		return nil, wire.TextTenantMismatch
	}
	t := p.last
	if t == nil || t.name.stream != string(stream) || t.name.namespace != string(namespace) {
		t = p.targets[targetName{string(namespace), string(stream)}]
		if t == nil {
			t = p.remember(string(namespace), string(stream))
		}
		p.last = t
	}
	if !t.allowed {
		p.conn.server.count.add(Forbidden, 1)
		return nil, wire.TextForbidden
	}
	return t, ""
}

func (p *publisher) remember(namespace, stream string) *target {
	if len(p.targets) >= maxTargets {
		clear(p.targets)
	}
	resource := auth.StreamResource(p.tenant, namespace, stream)
	t := &target{
		name:    targetName{namespace, stream},
		allowed: p.grants.Allowed(auth.ActionStreamPublish, resource),
	}
	if len(namespace)+len(stream) <= maxRemembered {
		p.targets[t.name] = t
	}
	return t
}

// find returns the stream of t. One that was deleted is looked up again, since
// it may have been made anew.
func (p *publisher) find(t *target) (*broker.Stream, error) {
	if t.stream != nil && t.stream.Active() {
		return t.stream, nil
	}
	s, err := p.conn.server.findStream(broker.Key{Tenant: p.tenant, Namespace: t.name.namespace, Name: t.name.stream})
	t.stream = s
	return s, err
}

// submit publishes a batch to t. The error text is for the client.
func (p *publisher) submit(t *target, b broker.Batch, w broker.Wait, done broker.Completer, token uint64) error {
	s, err := p.find(t)
	if err != nil {
		return err
	}
	err = p.conn.server.broker.Submit(p.conn.conn.Context(), broker.Publication{
		Stream: s, Batch: b, Account: p.conn.account, Completer: done, Token: token, OnWait: p.onWait,
	}, w)
	if errors.Is(err, context.Canceled) {
		return broker.ErrAdmissionClosed // the connection has ended
	}
	return err
}

// unanswered publishes a batch that nobody gets to hear about.
func (p *publisher) unanswered(t *target, b broker.Batch) {
	if b.Count == 0 {
		return
	}
	if err := p.submit(t, b, p.conn.server.cfg.UnackedWait, nil, 0); err != nil {
		p.conn.server.count.add(PublishUnanswered, 1)
	}
}

// sharedBatch turns the frame of a publish batch, in place, into the event
// frame that all subscribers share.
func sharedBatch(f wire.Frame, b wire.PublishBatch) broker.Batch {
	return broker.Batch{Frame: wire.SharedEventInPlace(f, b), Count: b.Items.Len(), Bytes: b.Items.Bytes()}
}

// encodedBatch makes an event frame of the payloads of a JSON message.
func encodedBatch(payloads [][]byte) (broker.Batch, error) {
	frame, err := wire.AppendSharedEventBatch(nil, nil, payloads)
	if err != nil {
		return broker.Batch{}, err
	}
	b := broker.Batch{Frame: frame, Count: len(payloads)}
	for _, p := range payloads {
		b.Bytes += len(p)
	}
	return b, nil
}
