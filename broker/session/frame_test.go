package session

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"felix/broker"
	"felix/wire"
)

// A frame with an unknown flag is refused and the next one works, before and
// after auth.
func TestUnknownFlags(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		s := c.raw()
		unknown := append(wire.AppendHeader(nil, 0x4001, 5), "xxxxx"...)
		s.bytes(unknown)
		expectError(s, "unsupported frame flags")
		s.send(&wire.Auth{TenantID: testTenant, Token: e.token()})
		expect(s, &wire.OK{})
		for _, f := range []wire.Flags{0x0080, 0x0100, 0x2000, 0x8000, 0x0209, 0x0040, 0x0048, 0x0060, 0x0042} {
			s.bytes(wire.AppendHeader(nil, f, 0))
			expectError(s, "unsupported frame flags")
		}
		s.alive()
		if n := e.count(UnsupportedFlags); n != 10 {
			t.Errorf("%d counted", n)
		}
	})
}

func TestMessagesInTheWrongDirection(t *testing.T) {
	const unexpected = "unexpected message type"
	for _, tc := range []struct {
		m    wire.Message
		text string
	}{
		{&wire.CacheValue{TenantID: testTenant, Namespace: testNS, Cache: testCache, Key: "k"}, unexpected},
		{&wire.CacheOK{RequestID: 1}, unexpected},
		{&wire.Event{TenantID: testTenant, Namespace: testNS, Stream: topic}, unexpected},
		{&wire.EventBatchJSON{TenantID: testTenant, Namespace: testNS, Stream: topic}, unexpected},
		{&wire.Subscribed{SubscriptionID: 1}, unexpected},
		{&wire.EventStreamHello{SubscriptionID: 1}, unexpected},
		{&wire.PublishOK{RequestID: 1}, unexpected},
		{&wire.PublishError{RequestID: 1, Message: "m"}, unexpected},
		{&wire.AuthOK{ServerFlags: 63}, unexpected},
		{&wire.OK{}, unexpected},
		{&wire.SubscribeCursorError{Reason: wire.CursorTooOld}, "subscribe_cursor_error is a server-to-client message"},
		{&wire.Error{Message: "m"}, ""},
	} {
		t.Run(tc.m.Type(), func(t *testing.T) {
			run(t, func(e *env, c *testClient) {
				other := c.control()
				s := c.control()
				s.send(tc.m)
				if tc.text != "" {
					expectError(s, tc.text)
				}
				s.ended()
				s.stopped(CodeUnexpected)
				other.alive()
				if n := e.count(UnexpectedMessages); n != 1 {
					t.Errorf("%d counted", n)
				}
			})
		})
	}
}

// What is no frame, or no message, ends its stream alone. Owed acks come first.
func TestMalformedInput(t *testing.T) {
	for _, tc := range []struct {
		name  string
		bytes string
		text  string // of the error message
	}{
		{"bad magic", "\x00LX1\x00\x01\x00\x00\x00\x00\x00\x02{}", "wire: bad frame magic"},
		{"bad version", "FLX1\x00\x02\x00\x00\x00\x00\x00\x02{}", "wire: unsupported frame version"},
		{"empty payload", "FLX1\x00\x01\x00\x00\x00\x00\x00\x00", ""},
		{"no JSON", "FLX1\x00\x01\x00\x00\x00\x00\x00\x02{]", ""},
		{"modifier alone", "FLX1\x00\x01\x00\x08\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00\x07\x02", ""},
		{"ack from a client", "FLX1\x00\x01\x00\x10\x00\x00\x00\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00", ""},
		{"events from a client", "FLX1\x00\x01\x00\x04\x00\x00\x00\x04\x00\x00\x00\x00", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run(t, func(e *env, c *testClient) {
				other := c.control()
				s := c.control()
				s.publish(id(1), "x")
				s.bytes([]byte(tc.bytes))
				s.acked(1, "")
				m, ok := s.message().(*wire.Error)
				if !ok {
					t.Fatal("no error message")
				}
				if tc.text != "" && m.Message != tc.text {
					t.Errorf("error %q, want %q", m.Message, tc.text)
				}
				s.ended()
				s.stopped(CodeMalformed)
				other.alive()
				if n := e.count(MalformedFrames); n != 1 {
					t.Errorf("%d counted", n)
				}
			})
		})
	}
}

// The end of the client's side inside a header is a clean end; inside a payload
// the frame is counted as malformed. Either way owed acks are sent, then FIN.
func TestEndOfInput(t *testing.T) {
	for _, tc := range []struct {
		name      string
		rest      []byte
		malformed uint64
	}{
		{"between frames", nil, 0},
		{"in a header", wire.AppendHeader(nil, 0, 9)[:7], 0},
		{"in a payload", append(wire.AppendHeader(nil, 0, 9), '{'), 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run(t, func(e *env, c *testClient) {
				s := c.control()
				for i := range uint64(100) {
					s.publish(&i, "x")
				}
				s.bytes(tc.rest)
				s.fin()
				for i := range uint64(100) {
					s.acked(i, "")
				}
				s.ended()
				eventually(t, "stream forgotten", func() bool { return e.server.Stats().Connections[0].ControlStreams == 0 })
				if _, stopped := s.s.stopped(); stopped {
					t.Error("client told to stop sending after it had finished")
				}
				if n := e.count(MalformedFrames); n != tc.malformed {
					t.Errorf("%d malformed frames", n)
				}
			})
		})
	}
}

// A publish over the frame limit is answered with a text that names size and
// limit, even to a client that writes all of it before it reads. Then the stream
// ends with a code of its own, and other streams go on.
func TestOversizedPublishSaysWhy(t *testing.T) {
	const limit = wire.DefaultMaxFrameBytes
	for _, over := range []int{1, 4 << 20} {
		for _, f := range []wire.Flags{wire.FlagPublishBatch, wire.FlagPublishBatch | wire.FlagPublishAcked, 0} {
			t.Run(fmt.Sprintf("over by %d, flags %d", over, f), func(t *testing.T) {
				run(t, func(e *env, c *testClient) {
					other := c.control()
					s := c.control()
					s.publish(id(1), "x")
					s.bytes(wire.AppendHeader(nil, f, limit+over))
					s.bytes(make([]byte, limit+over))
					s.acked(1, "")
					expectError(s, fmt.Sprintf("frame of %d bytes exceeds the limit of %d bytes", limit+over, limit))
					s.ended()
					s.stopped(CodeFrameTooLarge)
					other.alive()
					if n := e.count(OversizedFrames); n != 1 {
						t.Errorf("%d counted", n)
					}
				})
			})
		}
	}
}

// A frame at the limit is delivered, a byte less is too, and so is what is
// larger than every batch limit.
func TestLargeMessages(t *testing.T) {
	const overhead = 9 + 2 + 2 + 2 + 7 + 2 + 11 + 4 + 4 // of an acked publish to the conformance stream
	run(t, func(e *env, c *testClient) {
		ev, _ := c.subscribe(wire.Subscribe{})
		s := c.control()
		for i, n := range []int{0, 1, 65535, 65536, 1 << 20, wire.DefaultMaxFrameBytes - overhead - 1, wire.DefaultMaxFrameBytes - overhead} {
			s.publish(id(uint64(i)), strings.Repeat(string(rune('a'+i)), n))
			s.acked(uint64(i), "")
			got := ev.take(1)[0].payload
			if len(got) != n || n > 0 && strings.Trim(got, got[:1]) != "" {
				t.Fatalf("payload of %d bytes arrived as %d", n, len(got))
			}
		}
	})
}

// vector is one file of wire/testdata/vectors.
type vector struct {
	Name     string `json:"name"`
	FrameHex string `json:"frame_hex"`
	Reject   string `json:"reject"`
}

func loadVectors(t testing.TB) (frames []vector) {
	t.Helper()
	err := filepath.WalkDir("../../wire/testdata/vectors", func(path string, d os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".json" {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if filepath.Base(path) == "reject.json" {
			var list []vector
			err = json.Unmarshal(b, &list)
			frames = append(frames, list...)
			return err
		}
		var v vector
		err = json.Unmarshal(b, &v)
		frames = append(frames, v)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(frames) < 40 {
		t.Fatalf("only %d vectors", len(frames))
	}
	return frames
}

// Every vector thrown at an authenticated control stream has the outcome that
// the protocol gives its message.
func TestVectorsAsInput(t *testing.T) {
	const (
		goesOn   = "goes on"
		ackOK    = "ack ok"
		malforms = "malformed publish batch"
		tornDown = "torn down"
	)
	special := map[string]string{ // by name; an error text unless it is one of the above
		"auth_with_capabilities": "auth already established", "auth_full_flags": "auth already established",
		"binary_publish_ack_ok": "", "binary_publish_ack_error": "", "ack_bad_status": "", "ack_short": "", "ack_truncated_message": "",
		"shared_event_batch": "", "shared_event_batch_offsets": "", "legacy_event_batch": "", "legacy_event_batch_offsets": "",
		"shared_batch_count_bomb": "",
		"binary_publish_acked":    ackOK, "binary_publish_acked_keyed": ackOK, "binary_publish_acked_per_message": ackOK,
		"binary_publish_batch": goesOn, "binary_publish_batch_empty_payload": goesOn, "binary_publish_keyed": goesOn,
		"publish": "missing request_id for acked publish", "publish_batch_ack_none": goesOn,
		"publish_batch_per_batch": "publish_ok", "publish_per_message": "publish_ok",
		"subscribe": "subscribed", "subscribe_earliest": "subscribed", "subscribe_latest": "subscribed",
		"subscribe_offset": "subscribe_cursor_error",
		"cache_get":        "cache_value", "cache_get_with_id": "cache_value",
		"cache_put": "ok", "cache_put_no_ttl": "cache_ok",
		"error":                            tornDown,
		"subscribe_cursor_error_in_future": "subscribe_cursor_error is a server-to-client message",
		"subscribe_cursor_error_too_old":   "subscribe_cursor_error is a server-to-client message",
		"bad_magic":                        "", "bad_version": "", "json_unknown_type": "", "json_unpadded_base64": "",
		"unknown_flag_0x4000": "unsupported frame flags",
		"publish_count_bomb":  tornDown, "publish_truncated_payload": tornDown, "publish_bad_utf8_tenant": tornDown,
		"acked_bad_ack_mode": tornDown, "acked_short_prefix": tornDown,
	}
	e := newEnv(t, func(_ *Config, o *broker.Options) { o.AutoCreate = true })
	c := e.dial()
	for _, v := range loadVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			raw, err := hex.DecodeString(v.FrameHex)
			if err != nil {
				t.Fatal(err)
			}
			want, ok := special[v.Name]
			if !ok {
				want = "unexpected message type"
			}
			s := c.control()
			s.t = t
			s.bytes(raw)
			switch want {
			case goesOn:
				s.alive()
			case ackOK:
				if a := s.ack(); a.Failed {
					t.Errorf("ack %+v", a)
				}
			case tornDown:
				s.ended()
			case "publish_ok", "subscribed", "subscribe_cursor_error", "cache_value", "ok", "cache_ok":
				if m := s.message(); m.Type() != want {
					t.Errorf("answer %q, want %q", m.Type(), want)
				}
			default:
				m, ok := s.message().(*wire.Error)
				if !ok || want != "" && m.Message != want {
					t.Errorf("answer %+v, want error %q", m, want)
				}
			}
		})
	}
	c.close()
	e.close()
}
