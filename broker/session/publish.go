package session

import (
	"errors"

	"felix/broker"
	"felix/wire"
)

// publishBinary handles a publish batch, acked or not. What is wrong with an
// unacked one can only be told by ending the stream.
func (s *controlStream) publishBinary(f wire.Frame) *ending {
	count := &s.conn.server.count
	b, err := wire.ParsePublishBatch(f.Flags, f.Payload())
	switch {
	case errors.Is(err, wire.ErrUnsupportedFlags):
		count.add(UnsupportedFlags, 1)
		s.out.message(&wire.Error{Message: wire.TextUnsupportedFlags})
		return nil
	case errors.Is(err, wire.ErrMalformedBatch) && b.Acked:
		count.add(MalformedFrames, 1)
		s.refuse(replyAck, b.RequestID, wire.TextMalformedBatch)
		return nil
	case err != nil:
		count.add(MalformedFrames, 1)
		return &ending{code: CodeMalformed}
	}
	to, text := s.pub.resolve(b.TenantID, b.Namespace, b.Stream)
	switch {
	case text != "" && b.Acked:
		s.refuse(replyAck, b.RequestID, text)
	case text != "":
		return &ending{code: CodeForbidden}
	case b.Acked:
		s.acked(to, sharedBatch(f, b), replyAck, b.RequestID)
	default:
		s.pub.unanswered(to, sharedBatch(f, b))
	}
	return nil
}

// jsonPublish is what publish and publish_batch have in common.
type jsonPublish struct {
	tenant, namespace, stream string
	payloads                  [][]byte
	requestID                 *uint64
	ack                       wire.AckMode
	noID                      string // error text for a missing request id
}

func (s *controlStream) publishMessage(m *wire.Publish) *ending {
	return s.publishJSON(jsonPublish{
		m.TenantID, m.Namespace, m.Stream, [][]byte{m.Payload}, m.RequestID, m.Ack, wire.TextNoRequestID,
	})
}

func (s *controlStream) publishBatchMessage(m *wire.PublishBatchJSON) *ending {
	return s.publishJSON(jsonPublish{
		m.TenantID, m.Namespace, m.Stream, m.Payloads, m.RequestID, m.Ack, wire.TextNoRequestIDBatch,
	})
}

// publishJSON handles both JSON publishes. Without an ack mode they are acked.
func (s *controlStream) publishJSON(m jsonPublish) *ending {
	to, text := s.pub.resolve([]byte(m.tenant), []byte(m.namespace), []byte(m.stream))
	switch {
	case text == wire.TextTenantMismatch || text != "" && m.requestID == nil:
		return fail(CodeForbidden, text)
	case text != "":
		return &ending{code: CodeForbidden, reply: &wire.PublishError{RequestID: *m.requestID, Message: text}}
	case m.ack != wire.AckNone && m.requestID == nil:
		s.out.message(&wire.Error{Message: m.noID})
		return nil
	}
	batch, err := encodedBatch(m.payloads)
	switch {
	case err != nil:
		return fail(CodeMalformed, err.Error())
	case m.ack == wire.AckNone:
		s.pub.unanswered(to, batch)
	default:
		s.acked(to, batch, replyPublish, *m.requestID)
	}
	return nil
}

// acked publishes a batch and answers: when it has been accepted, or when it has
// been committed, as configured.
func (s *controlStream) acked(to *target, b broker.Batch, kind replyKind, id uint64) {
	cfg := &s.conn.server.cfg
	if b.Count == 0 || !cfg.AckOnCommit {
		s.acceptance(to, b, kind, id)
		return
	}
	token := s.out.reserve(kind, id)
	if err := s.pub.submit(to, b, cfg.AckedWait, s.out, token); err != nil {
		s.out.Complete(token, err)
	}
}

// acceptance submits a batch and answers whether it was accepted. An empty one
// only needs a stream that exists.
func (s *controlStream) acceptance(to *target, b broker.Batch, kind replyKind, id uint64) {
	var err error
	if b.Count == 0 {
		_, err = s.pub.find(to)
	} else {
		err = s.pub.submit(to, b, s.conn.server.cfg.AckedWait, nil, 0)
	}
	if err != nil {
		s.refuse(kind, id, err.Error())
		return
	}
	s.out.push(reply{kind: kind, id: id})
}

// refuse answers a publish with an error.
func (s *controlStream) refuse(kind replyKind, id uint64, text string) {
	s.out.push(reply{kind: kind, id: id, text: text})
}
