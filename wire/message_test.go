package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func ptr[T any](v T) *T { return &v }

func TestMessageRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := genMessage().Draw(t, "message")
		b, err := AppendMessage(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseMessage(b)
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if !reflect.DeepEqual(got, m) {
			t.Fatalf("got %#v\nwant %#v\njson %s", got, m, b)
		}
		var loose struct{ Type string }
		if err := json.Unmarshal(b, &loose); err != nil || loose.Type != m.Type() {
			t.Fatalf("encoding/json: %v, type %q, want %q", err, loose.Type, m.Type())
		}
	})
}

// Readers must not depend on the order of members, and ignore unknown ones.
func TestMessageMemberOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := genMessage().Draw(t, "message")
		b, err := AppendMessage(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(b, &members); err != nil {
			t.Fatal(err)
		}
		var parts []string
		for name, value := range members {
			parts = append(parts, fmt.Sprintf(" %q : %s\n", name, value))
		}
		parts = append(parts, `"client_features":{"x":[1,{"y":null}]}`, `"client_features":2`)
		parts = rapid.Permutation(parts).Draw(t, "order")
		text := "\t{" + strings.Join(parts, ",") + "}\r\n"
		if got, err := ParseMessage([]byte(text)); err != nil || !reflect.DeepEqual(got, m) {
			t.Fatalf("got %#v, %v\nwant %#v\njson %s", got, err, m, text)
		}
	})
}

func TestParseMessageAccepts(t *testing.T) {
	const ids = `"tenant_id":"t","namespace":"n","stream":"s"`
	const cacheIDs = `"tenant_id":"t","namespace":"n","cache":"c","key":"k"`
	tests := []struct {
		name, text string
		want       Message
	}{
		{"null is unset", `{"type":"auth","tenant_id":"t","token":"x","client_flags":null}`, &Auth{TenantID: "t", Token: "x"}},
		{"newer auth", `{"type":"auth","tenant_id":"t","token":"x","client_flags":8191,"client_features":4294967295,"client_features_hi":7}`,
			&Auth{TenantID: "t", Token: "x", ClientFlags: ptr(uint16(8191))}},
		{"escaped names and values", `{"\u0074ype":"\u006fk"}`, &OK{}},
		{"escaped base64", `{"type":"publish",` + ids + `,"payload":"aGVs\u0062G8\u003d"}`,
			&Publish{TenantID: "t", Namespace: "n", Stream: "s", Payload: []byte("hello")}},
		{"escaped solidus", `{"type":"publish",` + ids + `,"payload":"\/\/\/\/"}`,
			&Publish{TenantID: "t", Namespace: "n", Stream: "s", Payload: []byte{255, 255, 255}}},
		{"optional nulls", `{"type":"publish",` + ids + `,"payload":"","request_id":null,"ack":null}`,
			&Publish{TenantID: "t", Namespace: "n", Stream: "s", Payload: []byte{}}},
		{"empty batch", `{"type":"publish_batch",` + ids + `,"payloads":[ ]}`,
			&PublishBatchJSON{TenantID: "t", Namespace: "n", Stream: "s", Payloads: [][]byte{}}},
		{"spaced batch", `{"type":"publish_batch",` + ids + `,"payloads":[ "YQ==" , "" ,"\u0059g==" ]}`,
			&PublishBatchJSON{TenantID: "t", Namespace: "n", Stream: "s", Payloads: [][]byte{[]byte("a"), {}, []byte("b")}}},
		{"start null", `{"type":"subscribe",` + ids + `,"start":null}`, &Subscribe{TenantID: "t", Namespace: "n", Stream: "s"}},
		{"start object", `{"type":"subscribe",` + ids + `,"start": { "offset" : 18446744073709551615 }}`,
			&Subscribe{TenantID: "t", Namespace: "n", Stream: "s", Start: &Start{StartOffset, math.MaxUint64}}},
		{"ttl missing", `{"type":"cache_put",` + cacheIDs + `,"value":""}`,
			&CachePut{TenantID: "t", Namespace: "n", Cache: "c", Key: "k", Value: []byte{}}},
		{"ttl zero", `{"type":"cache_put",` + cacheIDs + `,"value":"","ttl_ms":0}`,
			&CachePut{TenantID: "t", Namespace: "n", Cache: "c", Key: "k", Value: []byte{}, TTLMillis: ptr(uint64(0))}},
		{"empty is no miss", `{"type":"cache_value",` + cacheIDs + `,"value":""}`,
			&CacheValue{TenantID: "t", Namespace: "n", Cache: "c", Key: "k", Value: []byte{}}},
		{"beyond 2^53", `{"type":"publish_ok","request_id":9007199254740993}`, &PublishOK{9007199254740993}},
		{"wrong type of a foreign member", `{"type":"ok","payload":5,"tenant_id":[]}`, &OK{}},
		{"unknown members twice", `{"type":"ok","x":1,"x":2}`, &OK{}},
	}
	for _, tt := range tests {
		got, err := ParseMessage([]byte(tt.text))
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %#v, %v; want %#v", tt.name, got, err, tt.want)
		}
	}
}

func TestParseMessageRefuses(t *testing.T) {
	const ids = `"tenant_id":"t","namespace":"n","stream":"s"`
	const cacheIDs = `"tenant_id":"t","namespace":"n","cache":"c","key":"k"`
	tests := []struct {
		name, text string
		err        error
		field      string
	}{
		{"empty", ``, errWantObject, ""},
		{"array", `[]`, errWantObject, ""},
		{"text", `"ok"`, errWantObject, ""},
		{"null", `null`, errWantObject, ""},
		{"garbage", "\x01\x02", errWantObject, ""},
		{"cut", `{"type":"ok"`, errInvalidJSON, ""},
		{"comma at the end", `{"type":"ok",}`, errInvalidJSON, ""},
		{"single quotes", `{'type':'ok'}`, errInvalidJSON, ""},
		{"comment", `{/**/"type":"ok"}`, errInvalidJSON, ""},
		{"not UTF-8", "{\"type\":\"error\",\"message\":\"\xff\"}", errInvalidJSON, ""},
		{"half a surrogate", `{"type":"error","message":"\ud800"}`, errInvalidJSON, ""},
		{"control character", "{\"type\":\"error\",\"message\":\"\n\"}", errInvalidJSON, ""},
		{"more after it", `{"type":"ok"}{}`, errTrailing, ""},
		{"garbage after it", `{"type":"ok"}x`, errTrailing, ""},
		{"no type", `{}`, errMissing, "type"},
		{"type null", `{"type":null}`, errNull, "type"},
		{"type number", `{"type":1}`, errWantText, "type"},
		{"type twice", `{"type":"ok","type":"ok"}`, errTwice, "type"},
		{"type twice, escaped", `{"type":"ok","typ\u0065":"ok"}`, errTwice, "type"},
		{"type case", `{"Type":"ok"}`, errMissing, "type"},
		{"value case", `{"type":"OK"}`, ErrUnknownType, ""},
		{"unknown type", `{"type":"group_join"}`, ErrUnknownType, ""},
		{"field case", `{"type":"publish_ok","Request_ID":1}`, errMissing, "request_id"},
		{"field twice", `{"type":"publish_ok","request_id":1,"request_id":1}`, errTwice, "request_id"},
		{"required null", `{"type":"auth","tenant_id":"t","token":null}`, errNull, "token"},
		{"text number", `{"type":"auth","tenant_id":1,"token":""}`, errWantText, "tenant_id"},
		{"number text", `{"type":"publish_ok","request_id":"1"}`, errWantNumber, "request_id"},
		{"number negative", `{"type":"publish_ok","request_id":-1}`, errWantNumber, "request_id"},
		{"number fraction", `{"type":"publish_ok","request_id":1.0}`, errWantNumber, "request_id"},
		{"number exponent", `{"type":"publish_ok","request_id":1e2}`, errWantNumber, "request_id"},
		{"number 2^64", `{"type":"publish_ok","request_id":18446744073709551616}`, errWantNumber, "request_id"},
		{"number true", `{"type":"publish_ok","request_id":true}`, errWantNumber, "request_id"},
		{"flags 2^16", `{"type":"auth_ok","server_flags":65536}`, errWantNumber, "server_flags"},
		{"client flags 2^16", `{"type":"auth","tenant_id":"t","token":"x","client_flags":65536}`, errWantNumber, "client_flags"},
		{"payload unpadded", `{"type":"publish",` + ids + `,"payload":"aGVsbG8"}`, errWantBase64, "payload"},
		{"payload overpadded", `{"type":"publish",` + ids + `,"payload":"aGVsbG8==="}`, errWantBase64, "payload"},
		{"payload padded inside", `{"type":"publish",` + ids + `,"payload":"YQ==YQ=="}`, errWantBase64, "payload"},
		{"payload URL alphabet", `{"type":"publish",` + ids + `,"payload":"__--"}`, errWantBase64, "payload"},
		{"payload trailing bits", `{"type":"publish",` + ids + `,"payload":"YR=="}`, errWantBase64, "payload"},
		{"payload line feeds", `{"type":"publish",` + ids + `,"payload":"YWJj\n\n\n\nYWJj"}`, errWantBase64, "payload"},
		{"payload carriage returns", `{"type":"publish",` + ids + `,"payload":"YWJj\r\r\r\rYWJj"}`, errWantBase64, "payload"},
		{"payload space", `{"type":"publish",` + ids + `,"payload":"YWJj    "}`, errWantBase64, "payload"},
		{"payload number", `{"type":"publish",` + ids + `,"payload":1}`, errWantText, "payload"},
		{"payload missing", `{"type":"publish",` + ids + `}`, errMissing, "payload"},
		{"ack unknown", `{"type":"publish",` + ids + `,"payload":"","ack":"all"}`, errNotAllowed, "ack"},
		{"ack number", `{"type":"publish",` + ids + `,"payload":"","ack":1}`, errWantText, "ack"},
		{"payloads text", `{"type":"publish_batch",` + ids + `,"payloads":"YQ=="}`, errWantList, "payloads"},
		{"payloads null", `{"type":"publish_batch",` + ids + `,"payloads":null}`, errNull, "payloads"},
		{"payloads of null", `{"type":"publish_batch",` + ids + `,"payloads":["YQ==",null]}`, errWantText, "payloads"},
		{"payloads of numbers", `{"type":"publish_batch",` + ids + `,"payloads":[1]}`, errWantText, "payloads"},
		{"payloads of lists", `{"type":"publish_batch",` + ids + `,"payloads":[["YQ=="]]}`, errWantText, "payloads"},
		{"payloads of quotes", `{"type":"publish_batch",` + ids + `,"payloads":["\"\"\\\"","YQ=="]}`, errWantBase64, "payloads"},
		{"start text", `{"type":"subscribe",` + ids + `,"start":"newest"}`, errNotAllowed, "start"},
		{"start number", `{"type":"subscribe",` + ids + `,"start":5}`, errWantText, "start"},
		{"start empty", `{"type":"subscribe",` + ids + `,"start":{}}`, errMissing, "start"},
		{"start null offset", `{"type":"subscribe",` + ids + `,"start":{"offset":null}}`, errNull, "start"},
		{"start other", `{"type":"subscribe",` + ids + `,"start":{"time":5}}`, errNotAllowed, "start"},
		{"start twice", `{"type":"subscribe",` + ids + `,"start":{"offset":5,"offset":5}}`, errNotAllowed, "start"},
		{"start more", `{"type":"subscribe",` + ids + `,"start":{"offset":5,"x":5}}`, errNotAllowed, "start"},
		{"reason", `{"type":"subscribe_cursor_error","reason":"gone","requested":1,"available":2}`, errNotAllowed, "reason"},
		{"value missing", `{"type":"cache_value",` + cacheIDs + `}`, errMissing, "value"},
		{"put value null", `{"type":"cache_put",` + cacheIDs + `,"value":null}`, errNull, "value"},
		{"ttl negative", `{"type":"cache_put",` + cacheIDs + `,"value":"","ttl_ms":-1}`, errWantNumber, "ttl_ms"},
		{"too deep", `{"type":"ok","x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, errInvalidJSON, ""},
	}
	for _, tt := range tests {
		m, err := ParseMessage([]byte(tt.text))
		var me *MessageError
		if !errors.As(err, &me) || !errors.Is(err, tt.err) || me.Field != tt.field || m != nil {
			t.Errorf("%s: got %#v, %v; want %v in field %q", tt.name, m, err, tt.err, tt.field)
		}
	}
}

// Every member of every message is required unless the protocol calls it optional.
func TestParseMessageRequiredMembers(t *testing.T) {
	optional := map[string]bool{
		"auth.client_flags": true, "publish.request_id": true, "publish.ack": true,
		"publish_batch.request_id": true, "publish_batch.ack": true, "subscribe.subscription_id": true,
		"subscribe.start": true, "event.offset": true, "event_batch.base_offset": true,
		"cache_put.request_id": true, "cache_put.ttl_ms": true, "cache_get.request_id": true,
		"cache_value.request_id": true,
	}
	seen := map[string]bool{}
	for _, v := range loadVectors(t) {
		if v.PayloadJSON == "" {
			continue
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(v.PayloadJSON), &members); err != nil {
			t.Fatal(err)
		}
		m, err := ParseMessage([]byte(v.PayloadJSON))
		if err != nil {
			t.Fatal(err)
		}
		for name := range members {
			less := map[string]json.RawMessage{}
			for k, value := range members {
				if k != name {
					less[k] = value
				}
			}
			text, err := json.Marshal(less)
			if err != nil {
				t.Fatal(err)
			}
			at := m.Type() + "." + name
			seen[at] = true
			if _, err := ParseMessage(text); (err == nil) != optional[at] {
				t.Errorf("without %s: error %v", at, err)
			}
		}
	}
	for at := range optional {
		if !seen[at] {
			t.Errorf("no vector has %s", at)
		}
	}
}

func TestMessageErrorTexts(t *testing.T) {
	secret := "s3cret"
	_, err := ParseMessage([]byte(`{"type":"auth","tenant_id":5,"token":"` + secret + `"}`))
	if want := `wire: message "auth": field "tenant_id": not a string`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	_, err = ParseMessage([]byte(`{"type":"` + strings.Repeat("x", 1000) + `"}`))
	if err == nil || len(err.Error()) > 100 {
		t.Errorf("error quotes a foreign type at length: %v", err)
	}
	_, err = ParseMessage([]byte(`{"token":"` + secret + `"}`))
	if want := `wire: message: field "type": missing`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

type foreignMessage struct{}

func (foreignMessage) Type() string { return "foreign" }

func TestAppendMessageRefuses(t *testing.T) {
	tests := []struct {
		name string
		m    Message
		err  error
	}{
		{"nil", nil, errNotAMessage},
		{"foreign", foreignMessage{}, errNotAMessage},
		{"text", &Error{Message: "a\xff"}, ErrInvalidUTF8},
		{"id", &Subscribe{TenantID: "t", Namespace: "\xc3\x28", Stream: "s"}, ErrInvalidUTF8},
		{"ack mode", &Publish{Ack: 9}, ErrInvalidAckMode},
		{"start", &Subscribe{Start: &Start{Kind: 9}}, errInvalidStart},
		{"reason", &SubscribeCursorError{}, errInvalidReason},
	}
	for _, tt := range tests {
		dst := []byte("keep")
		for _, encode := range []func([]byte, Message) ([]byte, error){AppendMessage, AppendMessageFrame} {
			got, err := encode(dst, tt.m)
			if !errors.Is(err, tt.err) || string(got) != "keep" {
				t.Errorf("%s: got %q, %v; want %v", tt.name, got, err, tt.err)
			}
		}
	}
}

func TestEnumStrings(t *testing.T) {
	for m, want := range map[AckMode]string{
		AckUnset: "unset", AckPerMessage: "per_message", AckPerBatch: "per_batch", AckNone: "none", 9: "AckMode(9)",
	} {
		if m.String() != want {
			t.Errorf("AckMode %d is %q, want %q", m, m, want)
		}
	}
}

// Payloads share an allocation; an append to one must not reach the next.
func TestParseMessagePayloadsAreCapped(t *testing.T) {
	m, err := ParseMessage([]byte(`{"type":"publish_batch","tenant_id":"t","namespace":"n","stream":"s","payloads":["YWJj","eHl6"]}`))
	if err != nil {
		t.Fatal(err)
	}
	list := m.(*PublishBatchJSON).Payloads
	_ = append(list[0], "!!!"...)
	if string(list[1]) != "xyz" {
		t.Errorf("second payload became %q", list[1])
	}
}

// A decoded message must not change when its frame is overwritten.
func TestParseMessageSharesNoMemory(t *testing.T) {
	for _, v := range loadVectors(t) {
		if v.PayloadJSON == "" {
			continue
		}
		b := []byte(v.PayloadJSON)
		m, err := ParseMessage(b)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b {
			b[i] = '#'
		}
		got, err := AppendMessage(nil, m)
		if err != nil || string(got) != v.PayloadJSON {
			t.Errorf("%s: message became %s, %v", v.Name, got, err)
		}
	}
}
