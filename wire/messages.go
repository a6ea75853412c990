package wire

import "fmt"

// Message is a JSON message: a pointer to one of the structs below. Optional
// fields are pointers, nil when absent. Ids and texts must be UTF-8.
type Message interface {
	// Type returns the value of the message's "type" field.
	Type() string
}

// AckMode says whether and how a publish wants to be answered. Its values 1 and
// 2 are those of the binary layout.
type AckMode uint8

// Ack modes. A broker treats AckPerMessage and AckPerBatch alike: one answer for
// the whole request.
const (
	AckUnset      AckMode = 0 // absent; the request's default applies
	AckPerMessage AckMode = 1
	AckPerBatch   AckMode = 2
	AckNone       AckMode = 3
)

// String returns the mode's name in JSON messages, or "unset".
func (m AckMode) String() string {
	switch m {
	case AckUnset:
		return "unset"
	case AckPerMessage:
		return "per_message"
	case AckPerBatch:
		return "per_batch"
	case AckNone:
		return "none"
	default:
		return fmt.Sprintf("AckMode(%d)", uint8(m))
	}
}

// StartKind says where a subscription begins.
type StartKind uint8

// Start positions.
const (
	StartLatest   StartKind = iota // records published from now on
	StartEarliest                  // the oldest record still held
	StartOffset                    // Start.Offset, the first record not yet seen
)

// Start is the position a subscription asks to begin at.
type Start struct {
	Kind   StartKind
	Offset uint64 // used by StartOffset
}

// CursorReason says why a start offset was refused.
type CursorReason string

// Cursor reasons.
const (
	CursorTooOld   CursorReason = "too_old"   // below the oldest record held
	CursorInFuture CursorReason = "in_future" // above the tail
)

// Auth opens every stream a client opens.
type Auth struct {
	TenantID    string
	Token       string
	ClientFlags *uint16 // the client's known frame flags
}

// AuthOK answers an Auth that carried ClientFlags.
type AuthOK struct {
	ServerFlags uint16 // the broker's known frame flags
}

// OK answers an Auth without ClientFlags and a CachePut without RequestID.
type OK struct{}

// Error reports a failure that belongs to no publish request.
type Error struct {
	Message string
}

// Publish publishes one payload.
type Publish struct {
	TenantID, Namespace, Stream string
	Payload                     []byte // nil is sent as empty
	RequestID                   *uint64
	Ack                         AckMode // AckUnset means AckPerMessage
}

// PublishBatchJSON publishes several payloads in a JSON message. Decoded payloads
// share one allocation.
type PublishBatchJSON struct {
	TenantID, Namespace, Stream string
	Payloads                    [][]byte
	RequestID                   *uint64
	Ack                         AckMode // AckUnset means AckPerBatch
}

// PublishOK acknowledges a JSON publish.
type PublishOK struct {
	RequestID uint64
}

// PublishError refuses a JSON publish.
type PublishError struct {
	RequestID uint64
	Message   string
}

// Subscribe asks for the events of a stream. It is the last request on its QUIC
// stream.
type Subscribe struct {
	TenantID, Namespace, Stream string
	SubscriptionID              *uint64 // used as it is; nil lets the broker choose
	Start                       *Start  // nil is StartLatest
}

// Subscribed accepts a Subscribe.
type Subscribed struct {
	SubscriptionID uint64
}

// SubscribeCursorError refuses the start offset of a Subscribe.
type SubscribeCursorError struct {
	Reason    CursorReason
	Requested uint64 // the offset asked for
	Available uint64 // the oldest offset held (CursorTooOld) or the tail (CursorInFuture)
}

// EventStreamHello is the first frame of an event stream.
type EventStreamHello struct {
	SubscriptionID uint64
}

// Event delivers one payload as JSON. Brokers use binary frames instead; clients
// accept both.
type Event struct {
	TenantID, Namespace, Stream string
	Payload                     []byte
	Offset                      *uint64
}

// EventBatchJSON delivers several payloads as JSON. Decoded payloads share one
// allocation.
type EventBatchJSON struct {
	TenantID, Namespace, Stream string
	Payloads                    [][]byte
	BaseOffset                  *uint64 // offset of the first payload
}

// CachePut stores a value.
type CachePut struct {
	TenantID, Namespace, Cache, Key string
	Value                           []byte // nil is sent as empty
	RequestID                       *uint64
	TTLMillis                       *uint64 // milliseconds; nil never expires, 0 at once
}

// CacheGet asks for a value.
type CacheGet struct {
	TenantID, Namespace, Cache, Key string
	RequestID                       *uint64
}

// CacheValue answers a CacheGet.
type CacheValue struct {
	TenantID, Namespace, Cache, Key string
	Value                           []byte // nil is a miss; an empty value is not nil
	RequestID                       *uint64
}

// CacheOK answers a CachePut that carried a RequestID.
type CacheOK struct {
	RequestID uint64
}

// The values of the "type" field.
const (
	typeAuth                 = "auth"
	typeAuthOK               = "auth_ok"
	typeOK                   = "ok"
	typeError                = "error"
	typePublish              = "publish"
	typePublishBatch         = "publish_batch"
	typePublishOK            = "publish_ok"
	typePublishError         = "publish_error"
	typeSubscribe            = "subscribe"
	typeSubscribed           = "subscribed"
	typeSubscribeCursorError = "subscribe_cursor_error"
	typeEventStreamHello     = "event_stream_hello"
	typeEvent                = "event"
	typeEventBatch           = "event_batch"
	typeCachePut             = "cache_put"
	typeCacheGet             = "cache_get"
	typeCacheValue           = "cache_value"
	typeCacheOK              = "cache_ok"
)

// Type returns "auth".
func (*Auth) Type() string { return typeAuth }

// Type returns "auth_ok".
func (*AuthOK) Type() string { return typeAuthOK }

// Type returns "ok".
func (*OK) Type() string { return typeOK }

// Type returns "error".
func (*Error) Type() string { return typeError }

// Type returns "publish".
func (*Publish) Type() string { return typePublish }

// Type returns "publish_batch".
func (*PublishBatchJSON) Type() string { return typePublishBatch }

// Type returns "publish_ok".
func (*PublishOK) Type() string { return typePublishOK }

// Type returns "publish_error".
func (*PublishError) Type() string { return typePublishError }

// Type returns "subscribe".
func (*Subscribe) Type() string { return typeSubscribe }

// Type returns "subscribed".
func (*Subscribed) Type() string { return typeSubscribed }

// Type returns "subscribe_cursor_error".
func (*SubscribeCursorError) Type() string { return typeSubscribeCursorError }

// Type returns "event_stream_hello".
func (*EventStreamHello) Type() string { return typeEventStreamHello }

// Type returns "event".
func (*Event) Type() string { return typeEvent }

// Type returns "event_batch".
func (*EventBatchJSON) Type() string { return typeEventBatch }

// Type returns "cache_put".
func (*CachePut) Type() string { return typeCachePut }

// Type returns "cache_get".
func (*CacheGet) Type() string { return typeCacheGet }

// Type returns "cache_value".
func (*CacheValue) Type() string { return typeCacheValue }

// Type returns "cache_ok".
func (*CacheOK) Type() string { return typeCacheOK }
