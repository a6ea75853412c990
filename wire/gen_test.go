package wire

import (
	"math"

	"pgregory.net/rapid"
)

// Generators shared by the property tests.

func genPayloads() *rapid.Generator[[][]byte] {
	return rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 40), 0, 12)
}

func genText() *rapid.Generator[string] {
	return rapid.OneOf(rapid.StringN(0, 20, -1), rapid.SampledFrom([]string{"", "t1", "a\"b\\c\n\x00\u2028<&>", "日本"}))
}

func genUint64() *rapid.Generator[uint64] {
	return rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, 1, 1<<53 + 1, math.MaxUint64}))
}

func genOptional() *rapid.Generator[*uint64] { return rapid.Ptr(genUint64(), true) }

func genPublishHeader() *rapid.Generator[PublishHeader] {
	return rapid.Custom(func(t *rapid.T) PublishHeader {
		h := PublishHeader{
			TenantID:  genText().Draw(t, "tenant"),
			Namespace: genText().Draw(t, "namespace"),
			Stream:    genText().Draw(t, "stream"),
			Acked:     rapid.Bool().Draw(t, "acked"),
			HasKey:    rapid.Bool().Draw(t, "hasKey"),
		}
		if h.Acked {
			h.RequestID = genUint64().Draw(t, "request")
			h.Ack = rapid.SampledFrom([]AckMode{AckPerMessage, AckPerBatch}).Draw(t, "ack")
		}
		if h.HasKey {
			h.Key = rapid.SliceOfN(rapid.Byte(), 0, 10).Draw(t, "key")
		}
		return h
	})
}

// genMessage draws any message of the protocol.
func genMessage() *rapid.Generator[Message] {
	text := func(t *rapid.T, name string) string { return genText().Draw(t, name) }
	id := func(t *rapid.T) uint64 { return genUint64().Draw(t, "id") }
	opt := func(t *rapid.T) *uint64 { return genOptional().Draw(t, "optional") }
	ack := func(t *rapid.T) AckMode {
		return rapid.SampledFrom([]AckMode{AckUnset, AckPerMessage, AckPerBatch, AckNone}).Draw(t, "ack")
	}
	payload := func(t *rapid.T) []byte { return rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "payload") }
	kinds := []func(t *rapid.T) Message{
		func(t *rapid.T) Message {
			return &Auth{text(t, "tenant"), text(t, "token"), rapid.Ptr(rapid.Uint16(), true).Draw(t, "flags")}
		},
		func(t *rapid.T) Message { return &AuthOK{rapid.Uint16().Draw(t, "flags")} },
		func(*rapid.T) Message { return &OK{} },
		func(t *rapid.T) Message { return &Error{text(t, "message")} },
		func(t *rapid.T) Message {
			return &Publish{text(t, "tenant"), text(t, "ns"), text(t, "stream"), payload(t), opt(t), ack(t)}
		},
		func(t *rapid.T) Message {
			return &PublishBatchJSON{text(t, "tenant"), text(t, "ns"), text(t, "stream"), genPayloads().Draw(t, "payloads"), opt(t), ack(t)}
		},
		func(t *rapid.T) Message { return &PublishOK{id(t)} },
		func(t *rapid.T) Message { return &PublishError{id(t), text(t, "message")} },
		func(t *rapid.T) Message {
			return &Subscribe{text(t, "tenant"), text(t, "ns"), text(t, "stream"), opt(t), genStart().Draw(t, "start")}
		},
		func(t *rapid.T) Message { return &Subscribed{id(t)} },
		func(t *rapid.T) Message {
			reason := rapid.SampledFrom([]CursorReason{CursorTooOld, CursorInFuture}).Draw(t, "reason")
			return &SubscribeCursorError{reason, id(t), id(t)}
		},
		func(t *rapid.T) Message { return &EventStreamHello{id(t)} },
		func(t *rapid.T) Message {
			return &Event{text(t, "tenant"), text(t, "ns"), text(t, "stream"), payload(t), opt(t)}
		},
		func(t *rapid.T) Message {
			return &EventBatchJSON{text(t, "tenant"), text(t, "ns"), text(t, "stream"), genPayloads().Draw(t, "payloads"), opt(t)}
		},
		func(t *rapid.T) Message {
			return &CachePut{text(t, "tenant"), text(t, "ns"), text(t, "cache"), text(t, "key"), payload(t), opt(t), opt(t)}
		},
		func(t *rapid.T) Message {
			return &CacheGet{text(t, "tenant"), text(t, "ns"), text(t, "cache"), text(t, "key"), opt(t)}
		},
		func(t *rapid.T) Message {
			value := payload(t)
			if rapid.Bool().Draw(t, "miss") {
				value = nil
			}
			return &CacheValue{text(t, "tenant"), text(t, "ns"), text(t, "cache"), text(t, "key"), value, opt(t)}
		},
		func(t *rapid.T) Message { return &CacheOK{id(t)} },
	}
	return rapid.Custom(func(t *rapid.T) Message {
		return rapid.SampledFrom(kinds).Draw(t, "kind")(t)
	})
}

func genStart() *rapid.Generator[*Start] {
	return rapid.Custom(func(t *rapid.T) *Start {
		switch rapid.IntRange(0, 3).Draw(t, "start") {
		case 0:
			return nil
		case 1:
			return &Start{Kind: StartLatest}
		case 2:
			return &Start{Kind: StartEarliest}
		default:
			return &Start{Kind: StartOffset, Offset: genUint64().Draw(t, "offset")}
		}
	})
}
