package wire

import (
	"bytes"
	"errors"
)

// maxTypeInError is how many bytes of a foreign type name an error quotes.
const maxTypeInError = 40

var (
	errMissing     = errors.New("missing")
	errNull        = errors.New("null")
	errWantText    = errors.New("not a string")
	errWantNumber  = errors.New("not an unsigned integer in range")
	errWantBase64  = errors.New("not padded standard base64")
	errWantList    = errors.New("not an array")
	errWantObject  = errors.New("not an object")
	errTwice       = errors.New("given twice")
	errNotAllowed  = errors.New("not one of the allowed values")
	errTrailing    = errors.New("data after the message")
	errInvalidJSON = errors.New("not valid JSON in UTF-8")
)

// ParseMessage decodes the payload of a frame without flags. Members it does not
// know are ignored. The error is a *MessageError, which wraps ErrUnknownType when
// the message is well formed but of no known type. The result shares no memory
// with payload, and takes at most about 9 bytes for each of its bytes.
func ParseMessage(payload []byte) (Message, error) {
	var d decoder
	if field, err := d.scan(payload); err != nil {
		return nil, &MessageError{Field: field, Err: err}
	}
	typ := d.text(fieldType)
	if d.err != nil {
		return nil, &MessageError{Field: d.field.String(), Err: d.err}
	}
	m := d.message(typ)
	if m == nil {
		if len(typ) > maxTypeInError {
			typ = typ[:maxTypeInError]
		}
		return nil, &MessageError{Type: typ, Err: ErrUnknownType}
	}
	if d.err != nil {
		return nil, &MessageError{Type: m.Type(), Field: d.field.String(), Err: d.err}
	}
	return m, nil
}

// DecodeCost returns about how many bytes ParseMessage allocates at most for
// payload. Most of it is for the items of a batch: many short ones are larger as
// slices than as text.
func DecodeCost(payload []byte) int {
	const sliceHeader = 24
	return len(payload) + sliceHeader*(bytes.Count(payload, []byte{'"'})/2)
}

// message builds the message of the given type from the scanned members, or
// returns nil when the type is not known.
func (d *decoder) message(typ string) Message {
	switch typ {
	case typeAuth:
		return &Auth{
			TenantID: d.text(fieldTenantID), Token: d.text(fieldToken),
			ClientFlags: d.optional16(fieldClientFlags),
		}
	case typeAuthOK:
		return &AuthOK{ServerFlags: uint16(d.number(fieldServerFlags, 16))}
	case typeOK:
		return &OK{}
	case typeError:
		return &Error{Message: d.text(fieldMessage)}
	case typePublish:
		return &Publish{
			TenantID: d.text(fieldTenantID), Namespace: d.text(fieldNamespace), Stream: d.text(fieldStream),
			Payload: d.binary(fieldPayload), RequestID: d.optional(fieldRequestID), Ack: d.ack(fieldAck),
		}
	case typePublishBatch:
		return &PublishBatchJSON{
			TenantID: d.text(fieldTenantID), Namespace: d.text(fieldNamespace), Stream: d.text(fieldStream),
			Payloads: d.binaries(fieldPayloads), RequestID: d.optional(fieldRequestID), Ack: d.ack(fieldAck),
		}
	case typePublishOK:
		return &PublishOK{RequestID: d.number(fieldRequestID, 64)}
	case typePublishError:
		return &PublishError{RequestID: d.number(fieldRequestID, 64), Message: d.text(fieldMessage)}
	case typeSubscribe:
		return &Subscribe{
			TenantID: d.text(fieldTenantID), Namespace: d.text(fieldNamespace), Stream: d.text(fieldStream),
			SubscriptionID: d.optional(fieldSubscriptionID), Start: d.start(fieldStart),
		}
	case typeSubscribed:
		return &Subscribed{SubscriptionID: d.number(fieldSubscriptionID, 64)}
	case typeSubscribeCursorError:
		return &SubscribeCursorError{
			Reason: d.reason(fieldReason), Requested: d.number(fieldRequested, 64),
			Available: d.number(fieldAvailable, 64),
		}
	case typeEventStreamHello:
		return &EventStreamHello{SubscriptionID: d.number(fieldSubscriptionID, 64)}
	case typeEvent:
		return &Event{
			TenantID: d.text(fieldTenantID), Namespace: d.text(fieldNamespace), Stream: d.text(fieldStream),
			Payload: d.binary(fieldPayload), Offset: d.optional(fieldOffset),
		}
	case typeEventBatch:
		return &EventBatchJSON{
			TenantID: d.text(fieldTenantID), Namespace: d.text(fieldNamespace), Stream: d.text(fieldStream),
			Payloads: d.binaries(fieldPayloads), BaseOffset: d.optional(fieldBaseOffset),
		}
	}
	return d.cacheMessage(typ)
}

func (d *decoder) cacheMessage(typ string) Message {
	switch typ {
	case typeCachePut:
		return &CachePut{
			TenantID: d.text(fieldTenantID), Namespace: d.text(fieldNamespace),
			Cache: d.text(fieldCache), Key: d.text(fieldKey),
			Value: d.binary(fieldValue), RequestID: d.optional(fieldRequestID), TTLMillis: d.optional(fieldTTL),
		}
	case typeCacheGet:
		return &CacheGet{
			TenantID: d.text(fieldTenantID), Namespace: d.text(fieldNamespace),
			Cache: d.text(fieldCache), Key: d.text(fieldKey),
			RequestID: d.optional(fieldRequestID),
		}
	case typeCacheValue:
		return &CacheValue{
			TenantID: d.text(fieldTenantID), Namespace: d.text(fieldNamespace),
			Cache: d.text(fieldCache), Key: d.text(fieldKey),
			Value: d.binaryOrNull(fieldValue), RequestID: d.optional(fieldRequestID),
		}
	case typeCacheOK:
		return &CacheOK{RequestID: d.number(fieldRequestID, 64)}
	}
	return nil
}

// field is a member name of some message.
type field uint8

const (
	fieldType field = iota
	fieldTenantID
	fieldNamespace
	fieldStream
	fieldToken
	fieldClientFlags
	fieldServerFlags
	fieldMessage
	fieldPayload
	fieldPayloads
	fieldRequestID
	fieldAck
	fieldSubscriptionID
	fieldStart
	fieldReason
	fieldRequested
	fieldAvailable
	fieldOffset
	fieldBaseOffset
	fieldCache
	fieldKey
	fieldValue
	fieldTTL
	fieldCount
)

var fieldNames = [fieldCount]string{
	"type", "tenant_id", "namespace", "stream", "token", "client_flags", "server_flags", "message",
	"payload", "payloads", "request_id", "ack", "subscription_id", "start", "reason", "requested",
	"available", "offset", "base_offset", "cache", "key", "value", "ttl_ms",
}

var fieldsByName = func() map[string]field {
	m := make(map[string]field, fieldCount)
	for i, name := range fieldNames {
		m[name] = field(i)
	}
	return m
}()

// String returns the member name.
func (f field) String() string { return fieldNames[f] }
