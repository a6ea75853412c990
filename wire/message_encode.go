package wire

import (
	"encoding/base64"
	"errors"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

var (
	errInvalidStart  = errors.New("unknown start kind")
	errInvalidReason = errors.New("unknown cursor reason")
	errNotAMessage   = errors.New("not a message of this package")
)

// AppendMessage appends the JSON text of m, without a frame header, to dst. The
// fields come in the order of docs/protocol.md. It fails with a *MessageError
// when a text is not UTF-8 or an enumerated field has no name; dst is then
// returned as it was.
func AppendMessage(dst []byte, m Message) ([]byte, error) {
	e := encoder{buf: dst}
	return e.encode(dst, m)
}

// AppendMessageFrame appends m as a whole frame to dst. Errors are those of
// AppendMessage and ErrFrameOverflow.
func AppendMessageFrame(dst []byte, m Message) ([]byte, error) {
	e := encoder{buf: AppendHeader(dst, 0, 0)}
	buf, err := e.encode(dst, m)
	if err != nil {
		return dst, err
	}
	n := len(buf) - len(dst) - HeaderLen
	if uint64(n) > math.MaxUint32 {
		return dst, &MessageError{Type: e.typ, Err: ErrFrameOverflow}
	}
	PutHeader(buf[len(dst):], 0, n)
	return buf, nil
}

// AppendCacheValueAround appends the frame of m to dst without the base64 text of
// m.Value, which must not be nil: base64.StdEncoding of it belongs at index split
// of the result, and is counted in the frame's header. So a large value can be
// written in pieces. Errors are those of AppendMessageFrame.
func AppendCacheValueAround(dst []byte, m *CacheValue) (frame []byte, split int, err error) {
	start := len(dst)
	e := encoder{buf: AppendHeader(dst, 0, 0)}
	e.begin(typeCacheValue)
	e.cacheKey(m.TenantID, m.Namespace, m.Cache, m.Key)
	e.name("value")
	e.buf = append(e.buf, '"')
	split = len(e.buf)
	e.buf = append(e.buf, '"')
	e.optional("request_id", m.RequestID)
	e.buf = append(e.buf, '}')
	n := len(e.buf) - start - HeaderLen + base64.StdEncoding.EncodedLen(len(m.Value))
	if e.err == nil && uint64(n) > math.MaxUint32 {
		e.err = ErrFrameOverflow
	}
	if e.err != nil {
		return dst, start, &MessageError{Type: e.typ, Field: e.field, Err: e.err}
	}
	PutHeader(e.buf[start:], 0, n)
	return e.buf, split, nil
}

// encoder appends the members of one JSON object. The first error sticks.
type encoder struct {
	buf   []byte
	typ   string
	field string // where err happened
	err   error
}

// encode returns dst with m appended, or just dst. It calls no method of m, so
// that a message made for the call need not go to the heap.
func (e *encoder) encode(dst []byte, m Message) ([]byte, error) {
	if !e.message(m) {
		return dst, &MessageError{Err: errNotAMessage}
	}
	if e.err != nil {
		return dst, &MessageError{Type: e.typ, Field: e.field, Err: e.err}
	}
	return append(e.buf, '}'), nil
}

func (e *encoder) message(m Message) bool {
	switch m := m.(type) {
	case *Auth:
		e.begin(typeAuth)
		e.text("tenant_id", m.TenantID)
		e.text("token", m.Token)
		if m.ClientFlags != nil {
			e.number("client_flags", uint64(*m.ClientFlags))
		}
	case *AuthOK:
		e.begin(typeAuthOK)
		e.number("server_flags", uint64(m.ServerFlags))
	case *OK:
		e.begin(typeOK)
	case *Error:
		e.begin(typeError)
		e.text("message", m.Message)
	case *Subscribe:
		e.begin(typeSubscribe)
		e.stream(m.TenantID, m.Namespace, m.Stream)
		e.optional("subscription_id", m.SubscriptionID)
		e.start("start", m.Start)
	case *Subscribed:
		e.begin(typeSubscribed)
		e.number("subscription_id", m.SubscriptionID)
	case *SubscribeCursorError:
		e.begin(typeSubscribeCursorError)
		e.reason("reason", m.Reason)
		e.number("requested", m.Requested)
		e.number("available", m.Available)
	case *EventStreamHello:
		e.begin(typeEventStreamHello)
		e.number("subscription_id", m.SubscriptionID)
	default:
		return e.payloadMessage(m) || e.cacheMessage(m)
	}
	return true
}

func (e *encoder) payloadMessage(m Message) bool {
	switch m := m.(type) {
	case *Publish:
		e.begin(typePublish)
		e.stream(m.TenantID, m.Namespace, m.Stream)
		e.binary("payload", m.Payload)
		e.optional("request_id", m.RequestID)
		e.ack("ack", m.Ack)
	case *PublishBatchJSON:
		e.begin(typePublishBatch)
		e.stream(m.TenantID, m.Namespace, m.Stream)
		e.binaries("payloads", m.Payloads)
		e.optional("request_id", m.RequestID)
		e.ack("ack", m.Ack)
	case *PublishOK:
		e.begin(typePublishOK)
		e.number("request_id", m.RequestID)
	case *PublishError:
		e.begin(typePublishError)
		e.number("request_id", m.RequestID)
		e.text("message", m.Message)
	case *Event:
		e.begin(typeEvent)
		e.stream(m.TenantID, m.Namespace, m.Stream)
		e.binary("payload", m.Payload)
		e.optional("offset", m.Offset)
	case *EventBatchJSON:
		e.begin(typeEventBatch)
		e.stream(m.TenantID, m.Namespace, m.Stream)
		e.binaries("payloads", m.Payloads)
		e.optional("base_offset", m.BaseOffset)
	default:
		return false
	}
	return true
}

func (e *encoder) cacheMessage(m Message) bool {
	switch m := m.(type) {
	case *CachePut:
		e.begin(typeCachePut)
		e.cacheKey(m.TenantID, m.Namespace, m.Cache, m.Key)
		e.binary("value", m.Value)
		e.optional("request_id", m.RequestID)
		if m.TTLMillis == nil {
			e.null("ttl_ms")
		} else {
			e.number("ttl_ms", *m.TTLMillis)
		}
	case *CacheGet:
		e.begin(typeCacheGet)
		e.cacheKey(m.TenantID, m.Namespace, m.Cache, m.Key)
		e.optional("request_id", m.RequestID)
	case *CacheValue:
		e.begin(typeCacheValue)
		e.cacheKey(m.TenantID, m.Namespace, m.Cache, m.Key)
		if m.Value == nil {
			e.null("value")
		} else {
			e.binary("value", m.Value)
		}
		e.optional("request_id", m.RequestID)
	case *CacheOK:
		e.begin(typeCacheOK)
		e.number("request_id", m.RequestID)
	default:
		return false
	}
	return true
}

func (e *encoder) begin(typ string) {
	e.typ = typ
	e.buf = append(e.buf, `{"type":"`...)
	e.buf = append(e.buf, typ...)
	e.buf = append(e.buf, '"')
}

func (e *encoder) name(name string) {
	e.buf = append(e.buf, `,"`...)
	e.buf = append(e.buf, name...)
	e.buf = append(e.buf, `":`...)
}

func (e *encoder) fail(field string, err error) {
	if e.err == nil {
		e.field, e.err = field, err
	}
}

func (e *encoder) text(name, s string) {
	e.name(name)
	buf, err := jsontext.AppendQuote(e.buf, s)
	if err != nil {
		e.fail(name, ErrInvalidUTF8)
	}
	e.buf = buf
}

func (e *encoder) stream(tenant, namespace, stream string) {
	e.text("tenant_id", tenant)
	e.text("namespace", namespace)
	e.text("stream", stream)
}

func (e *encoder) cacheKey(tenant, namespace, cache, key string) {
	e.text("tenant_id", tenant)
	e.text("namespace", namespace)
	e.text("cache", cache)
	e.text("key", key)
}

func (e *encoder) number(name string, n uint64) {
	e.name(name)
	e.buf = strconv.AppendUint(e.buf, n, 10)
}

func (e *encoder) optional(name string, n *uint64) {
	if n != nil {
		e.number(name, *n)
	}
}

func (e *encoder) null(name string) {
	e.name(name)
	e.buf = append(e.buf, "null"...)
}

func (e *encoder) quoteBinary(b []byte) {
	e.buf = append(e.buf, '"')
	e.buf = base64.StdEncoding.AppendEncode(e.buf, b)
	e.buf = append(e.buf, '"')
}

func (e *encoder) binary(name string, b []byte) {
	e.name(name)
	e.quoteBinary(b)
}

func (e *encoder) binaries(name string, list [][]byte) {
	e.name(name)
	e.buf = append(e.buf, '[')
	for i, b := range list {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		e.quoteBinary(b)
	}
	e.buf = append(e.buf, ']')
}

func (e *encoder) ack(name string, m AckMode) {
	switch m {
	case AckUnset:
	case AckPerMessage, AckPerBatch, AckNone:
		e.name(name)
		e.buf = append(e.buf, '"')
		e.buf = append(e.buf, m.String()...)
		e.buf = append(e.buf, '"')
	default:
		e.fail(name, ErrInvalidAckMode)
	}
}

func (e *encoder) start(name string, s *Start) {
	if s == nil {
		return
	}
	e.name(name)
	switch s.Kind {
	case StartLatest:
		e.buf = append(e.buf, `"latest"`...)
	case StartEarliest:
		e.buf = append(e.buf, `"earliest"`...)
	case StartOffset:
		e.buf = append(e.buf, `{"offset":`...)
		e.buf = strconv.AppendUint(e.buf, s.Offset, 10)
		e.buf = append(e.buf, '}')
	default:
		e.fail(name, errInvalidStart)
	}
}

func (e *encoder) reason(name string, r CursorReason) {
	if r != CursorTooOld && r != CursorInFuture {
		e.fail(name, errInvalidReason)
	}
	e.text(name, string(r))
}
