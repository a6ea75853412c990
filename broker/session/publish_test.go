package session

import (
	"context"
	"fmt"
	"testing"

	"felix/broker"
	"felix/broker/auth"
	"felix/wire"
)

const (
	onlySubscribe = "stream.subscribe:stream:t1/*"
	onlyPublish   = "stream.publish:stream:t1/*"
)

// The answers to a publish, by request form: what is wrong with it decides
// whether the stream goes on.
func TestPublishAnswers(t *testing.T) {
	publish := func(tenant, stream string, request *uint64, ack wire.AckMode) func(*testStream) {
		return func(s *testStream) {
			s.send(&wire.Publish{TenantID: tenant, Namespace: testNS, Stream: stream, Payload: []byte("x"), RequestID: request, Ack: ack})
		}
	}
	batch := func(tenant, stream string, request *uint64, ack wire.AckMode) func(*testStream) {
		return func(s *testStream) {
			s.send(&wire.PublishBatchJSON{
				TenantID: tenant, Namespace: testNS, Stream: stream, Payloads: [][]byte{[]byte("x"), nil}, RequestID: request, Ack: ack,
			})
		}
	}
	binary := func(tenant, stream string, request *uint64, mode wire.AckMode) func(*testStream) {
		return func(s *testStream) {
			h := wire.PublishHeader{TenantID: tenant, Namespace: testNS, Stream: stream}
			if request != nil {
				h.Acked, h.RequestID, h.Ack = true, *request, mode
			}
			s.bytes(batchFrame(s.t, h, "x", ""))
		}
	}
	rawBatch := func(f wire.Flags, payload string) func(*testStream) {
		return func(s *testStream) { s.bytes(append(wire.AppendHeader(nil, f, len(payload)), payload...)) }
	}
	const acked = wire.FlagPublishBatch | wire.FlagPublishAcked
	const body = "\x00\x02t1\x00\x07default\x00\x0bconformance"
	const bomb = body + "\xff\xff\xff\xff"
	const short = body + "\x00\x00\x00\x01\x00\x00\x00\x09short"
	const id7 = "\x00\x00\x00\x00\x00\x00\x00\x07"
	const missing = "stream not found: tenant=t1 namespace=default stream=missing"

	type outcome struct {
		answer wire.Message // nil: none
		ack    string       // instead: text of the error ack to request 7, "ok" for success
		code   Code         // why the stream ends; CodeNone: it goes on
	}
	for _, tc := range []struct {
		name  string
		perms string // default: everything
		send  func(*testStream)
		want  outcome
	}{
		{"publish per_message", "", publish("t1", topic, id(7), wire.AckPerMessage), outcome{answer: &wire.PublishOK{RequestID: 7}}},
		{"publish per_batch", "", publish("t1", topic, id(7), wire.AckPerBatch), outcome{answer: &wire.PublishOK{RequestID: 7}}},
		{"publish default mode", "", publish("t1", topic, id(7), wire.AckUnset), outcome{answer: &wire.PublishOK{RequestID: 7}}},
		{"publish none", "", publish("t1", topic, nil, wire.AckNone), outcome{}},
		{"publish none with id", "", publish("t1", topic, id(7), wire.AckNone), outcome{}},
		{"publish without id", "", publish("t1", topic, nil, wire.AckPerMessage),
			outcome{answer: &wire.Error{Message: "missing request_id for acked publish"}}},
		{"publish without id and mode", "", publish("t1", topic, nil, wire.AckUnset),
			outcome{answer: &wire.Error{Message: "missing request_id for acked publish"}}},
		{"publish of another tenant", "", publish("t2", topic, id(7), wire.AckPerMessage),
			outcome{answer: &wire.Error{Message: "tenant mismatch"}, code: CodeForbidden}},
		{"publish forbidden", onlySubscribe, publish("t1", topic, id(7), wire.AckPerMessage),
			outcome{answer: &wire.PublishError{RequestID: 7, Message: "forbidden"}, code: CodeForbidden}},
		{"publish forbidden without id", onlySubscribe, publish("t1", topic, nil, wire.AckNone),
			outcome{answer: &wire.Error{Message: "forbidden"}, code: CodeForbidden}},
		{"publish unknown stream", "", publish("t1", "missing", id(7), wire.AckPerMessage),
			outcome{answer: &wire.PublishError{RequestID: 7, Message: missing}}},
		{"publish unknown stream, none", "", publish("t1", "missing", id(7), wire.AckNone), outcome{}},

		{"publish_batch per_batch", "", batch("t1", topic, id(7), wire.AckPerBatch), outcome{answer: &wire.PublishOK{RequestID: 7}}},
		{"publish_batch per_message", "", batch("t1", topic, id(7), wire.AckPerMessage), outcome{answer: &wire.PublishOK{RequestID: 7}}},
		{"publish_batch default mode", "", batch("t1", topic, id(7), wire.AckUnset), outcome{answer: &wire.PublishOK{RequestID: 7}}},
		{"publish_batch none", "", batch("t1", topic, nil, wire.AckNone), outcome{}},
		{"publish_batch without id", "", batch("t1", topic, nil, wire.AckUnset),
			outcome{answer: &wire.Error{Message: "missing request_id for acked publish batch"}}},
		{"publish_batch of another tenant", "", batch("t2", topic, id(7), wire.AckNone),
			outcome{answer: &wire.Error{Message: "tenant mismatch"}, code: CodeForbidden}},
		{"publish_batch forbidden", onlySubscribe, batch("t1", topic, id(7), wire.AckPerBatch),
			outcome{answer: &wire.PublishError{RequestID: 7, Message: "forbidden"}, code: CodeForbidden}},
		{"publish_batch unknown stream", "", batch("t1", "missing", id(7), wire.AckPerBatch),
			outcome{answer: &wire.PublishError{RequestID: 7, Message: missing}}},

		{"0x0009 per_message", "", binary("t1", topic, id(7), wire.AckPerMessage), outcome{ack: "ok"}},
		{"0x0009 per_batch", "", binary("t1", topic, id(7), wire.AckPerBatch), outcome{ack: "ok"}},
		{"0x0009 unreadable mode", "", rawBatch(acked, id7+"\x00"+body+"\x00\x00\x00\x00"), outcome{code: CodeMalformed}},
		{"0x0009 short prefix", "", rawBatch(acked, id7), outcome{code: CodeMalformed}},
		{"0x0009 count bomb", "", rawBatch(acked, id7+"\x02"+bomb), outcome{ack: "malformed publish batch"}},
		{"0x0009 truncated", "", rawBatch(acked, id7+"\x01"+short), outcome{ack: "malformed publish batch"}},
		{"0x0049 key past the end", "", rawBatch(acked|wire.FlagKeyed, id7+"\x01\x00\x63"), outcome{ack: "malformed publish batch"}},
		{"0x0009 of another tenant", "", binary("t2", topic, id(7), wire.AckPerBatch), outcome{ack: "tenant mismatch"}},
		{"0x0009 forbidden", onlySubscribe, binary("t1", topic, id(7), wire.AckPerBatch), outcome{ack: "forbidden"}},
		{"0x0009 unknown stream", "", binary("t1", "missing", id(7), wire.AckPerBatch), outcome{ack: missing}},

		{"0x0001", "", binary("t1", topic, nil, wire.AckNone), outcome{}},
		{"0x0001 count bomb", "", rawBatch(wire.FlagPublishBatch, bomb), outcome{code: CodeMalformed}},
		{"0x0001 truncated", "", rawBatch(wire.FlagPublishBatch, short), outcome{code: CodeMalformed}},
		{"0x0001 of another tenant", "", binary("t2", topic, nil, wire.AckNone), outcome{code: CodeForbidden}},
		{"0x0001 forbidden", onlySubscribe, binary("t1", topic, nil, wire.AckNone), outcome{code: CodeForbidden}},
		{"0x0001 unknown stream", "", binary("t1", "missing", nil, wire.AckNone), outcome{}},
		{"0x0003 names no layout", "", rawBatch(wire.FlagPublishBatch|wire.FlagEventBatch, body+"\x00\x00\x00\x00"),
			outcome{answer: &wire.Error{Message: "unsupported frame flags"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run(t, func(e *env, c *testClient) {
				other := c.control()
				var perms []string
				if tc.perms != "" {
					perms = []string{tc.perms}
				}
				s := c.control(perms...)
				s.t = t
				tc.send(s)
				switch {
				case tc.want.ack == "ok":
					s.acked(7, "")
				case tc.want.ack != "":
					s.acked(7, tc.want.ack)
				case tc.want.answer != nil:
					expect(s, tc.want.answer)
				}
				if tc.want.code != CodeNone {
					s.ended()
					s.stopped(tc.want.code)
					other.alive()
					return
				}
				if tc.perms != "" {
					s.publish(id(8), "x")
					s.acked(8, "forbidden")
					return
				}
				s.alive() // and nothing else was answered
			})
		})
	}
}

// What is published arrives, in every encoding, in order.
func TestPublishEncodingsArriveInOrder(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		ev, _ := c.subscribe(wire.Subscribe{})
		s := c.control()
		s.send(&wire.Publish{TenantID: testTenant, Namespace: testNS, Stream: topic, Payload: []byte("alpha"), RequestID: id(1)})
		s.publish(id(2), "beta", "", "gamma")
		s.publish(nil, "delta")
		s.send(&wire.PublishBatchJSON{
			TenantID: testTenant, Namespace: testNS, Stream: topic, Payloads: [][]byte{[]byte("eps"), {}}, RequestID: id(3),
		})
		h := wire.PublishHeader{TenantID: testTenant, Namespace: testNS, Stream: topic, HasKey: true, Key: []byte("kk")}
		s.bytes(batchFrame(t, h, "keyed"))
		h.Key, h.Acked, h.RequestID, h.Ack = nil, true, 4, wire.AckPerMessage
		s.bytes(batchFrame(t, h, "empty key"))
		withKey := `{"type":"publish","tenant_id":"t1","namespace":"default","stream":"conformance","payload":"anNvbg==","request_id":5,"key":"a2s="}`
		s.bytes(append(wire.AppendHeader(nil, 0, len(withKey)), withKey...))

		expect(s, &wire.PublishOK{RequestID: 1})
		s.acked(2, "")
		expect(s, &wire.PublishOK{RequestID: 3})
		s.acked(4, "")
		expect(s, &wire.PublishOK{RequestID: 5})
		ev.takePayloads("alpha", "beta", "", "gamma", "delta", "eps", "", "keyed", "empty key", "json")
	})
}

// An empty batch publishes nothing and is acked, if its stream exists.
func TestEmptyBatch(t *testing.T) {
	for _, commit := range []bool{false, true} {
		t.Run(fmt.Sprintf("commit=%v", commit), func(t *testing.T) {
			run(t, func(e *env, c *testClient) {
				ev, _ := c.subscribe(wire.Subscribe{})
				s := c.control()
				s.publish(id(1))
				s.publish(nil)
				s.bytes(batchFrame(t, wire.PublishHeader{
					TenantID: testTenant, Namespace: testNS, Stream: "missing", Acked: true, RequestID: 2, Ack: wire.AckPerBatch,
				}))
				s.send(&wire.PublishBatchJSON{TenantID: testTenant, Namespace: testNS, Stream: topic, RequestID: id(3)})
				s.publish(id(4), "x")
				s.acked(1, "")
				s.acked(2, "stream not found: tenant=t1 namespace=default stream=missing")
				expect(s, &wire.PublishOK{RequestID: 3})
				s.acked(4, "")
				ev.takePayloads("x")
			}, func(cfg *Config, _ *broker.Options) { cfg.AckOnCommit = commit })
		})
	}
}

// A stream that is deleted and made again is found again by a publisher that
// has used it before.
func TestPublisherFindsRecreatedStream(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		key := broker.Key{Tenant: testTenant, Namespace: testNS, Name: topic}
		s := c.control()
		s.publish(id(1), "old")
		s.acked(1, "")
		e.broker.DeleteStream(key)
		s.publish(id(2), "lost")
		s.acked(2, "stream not found: tenant=t1 namespace=default stream=conformance")
		if err := e.broker.CreateStream(key, broker.StreamOptions{}); err != nil {
			t.Fatal(err)
		}
		ev, _ := c.subscribe(wire.Subscribe{})
		s.publish(id(3), "new")
		s.acked(3, "")
		ev.takePayloads("new")
	})
}

// One control stream publishes to many streams, more than it remembers.
func TestPublisherRemembersBoundedly(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		c.control() // the connection is there
		grants, err := auth.NewGrants(testTenant, "s", onlyPublish)
		if err != nil {
			t.Fatal(err)
		}
		conn := e.server.connections()[0]
		p := newPublisher(conn, grants)
		long := make([]byte, maxRemembered+1)
		for i := range 3 * maxTargets {
			if _, text := p.resolve([]byte(testTenant), []byte(testNS), fmt.Appendf(nil, "s%d", i)); text != "" {
				t.Fatal(text)
			}
		}
		if _, text := p.resolve([]byte(testTenant), []byte(testNS), long); text != "" {
			t.Fatal(text)
		}
		if n := len(p.targets); n > maxTargets {
			t.Errorf("%d targets remembered", n)
		}
		if p.targets[targetName{testNS, string(long)}] != nil {
			t.Error("a long name is remembered")
		}
	})
}

// Uni streams take an auth and publishes, and answer nothing.
func TestUniStream(t *testing.T) {
	hello := func(e *env) []byte {
		b, err := wire.AppendMessageFrame(nil, &wire.Auth{TenantID: testTenant, Token: e.token(), ClientFlags: flags(63)})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	message := func(m wire.Message) []byte {
		b, err := wire.AppendMessageFrame(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	other := wire.PublishHeader{TenantID: "t2", Namespace: testNS, Stream: topic}
	for _, tc := range []struct {
		name   string
		perms  string
		frames [][]byte
		code   Code // CodeNone: goes on
	}{
		{"publishes", "", [][]byte{
			publishFrame(t, nil, "a", "b"),
			message(&wire.Publish{TenantID: testTenant, Namespace: testNS, Stream: topic, Payload: []byte("c"), RequestID: id(1), Ack: wire.AckPerMessage}),
			message(&wire.Publish{TenantID: testTenant, Namespace: testNS, Stream: "missing"}),
			message(&wire.PublishBatchJSON{TenantID: testTenant, Namespace: testNS, Stream: topic, Payloads: [][]byte{[]byte("d")}}),
			batchFrame(t, wire.PublishHeader{TenantID: testTenant, Namespace: testNS, Stream: topic, HasKey: true}, "e"),
		}, CodeNone},
		{"second auth", "", [][]byte{message(&wire.Auth{TenantID: testTenant, Token: "x"})}, CodeUnauthenticated},
		{"acked batch", "", [][]byte{publishFrame(t, id(1), "x")}, CodeUnexpected},
		{"subscribe", "", [][]byte{message(&wire.Subscribe{TenantID: testTenant, Namespace: testNS, Stream: topic})}, CodeUnexpected},
		{"unknown flags", "", [][]byte{wire.AppendHeader(nil, 0x4001, 0)}, CodeUnexpected},
		{"no JSON", "", [][]byte{wire.AppendHeader(nil, 0, 0)}, CodeMalformed},
		{"bad batch", "", [][]byte{wire.AppendHeader(nil, wire.FlagPublishBatch, 0)}, CodeMalformed},
		{"bad header", "", [][]byte{make([]byte, wire.HeaderLen)}, CodeMalformed},
		{"oversized", "", [][]byte{wire.AppendHeader(nil, wire.FlagPublishBatch, 16<<20+1)}, CodeFrameTooLarge},
		{"other tenant", "", [][]byte{batchFrame(t, other, "x")}, CodeForbidden},
		{"forbidden", onlySubscribe, [][]byte{publishFrame(t, nil, "x")}, CodeForbidden},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run(t, func(e *env, c *testClient) {
				ev, _ := c.subscribe(wire.Subscribe{})
				u := &testStream{t: t, s: c.link.openUni()}
				auth := hello(e)
				if tc.perms != "" {
					auth = message(&wire.Auth{TenantID: testTenant, Token: e.token(tc.perms)})
				}
				u.bytes(auth)
				for _, f := range tc.frames {
					u.bytes(f)
				}
				if tc.code != CodeNone {
					u.stopped(tc.code)
					c.control().alive()
					return
				}
				ev.takePayloads("a", "b", "c", "d", "e")
				u.fin()
				eventually(t, "uni stream forgotten", func() bool { return e.server.Stats().Connections[0].UniStreams == 0 })
			})
		})
	}
	t.Run("unauthenticated", func(t *testing.T) {
		run(t, func(e *env, c *testClient) {
			for _, f := range [][]byte{
				publishFrame(t, nil, "x"),
				message(&wire.Publish{TenantID: testTenant, Namespace: testNS, Stream: topic}),
				message(&wire.Auth{TenantID: testTenant, Token: "bad"}),
			} {
				u := &testStream{t: t, s: c.link.openUni()}
				u.bytes(f)
				u.stopped(CodeUnauthenticated)
			}
		})
	})
	// Newer clients probe an idle connection with a stream that only
	// authenticates.
	t.Run("auth only", func(t *testing.T) {
		run(t, func(e *env, c *testClient) {
			u := &testStream{t: t, s: c.link.openUni()}
			u.bytes(message(&wire.Auth{TenantID: testTenant, Token: e.token()}))
			u.fin()
			eventually(t, "auth taken", func() bool {
				st := e.server.Stats()
				return st.Counts[AuthOK] == 1 && st.Connections[0].UniStreams == 0
			})
			if code, ok := u.s.stopped(); ok {
				t.Errorf("stopped with %v", Code(code))
			}
			if n := e.count(MalformedFrames) + e.count(UnexpectedMessages); n != 0 {
				t.Errorf("%d complaints", n)
			}
		})
	})
}

// Admission errors reach the client with their text, on both encodings.
func TestAdmissionErrorsAreAnswered(t *testing.T) {
	run(t, func(e *env, c *testClient) {
		s := c.control()
		s.publish(id(1), "x")
		s.acked(1, "")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := e.broker.Close(ctx); err != nil {
			t.Fatal(err)
		}
		s.publish(id(2), "x")
		s.acked(2, "publish admission closed")
		s.send(&wire.Publish{TenantID: testTenant, Namespace: testNS, Stream: topic, RequestID: id(3)})
		expect(s, &wire.PublishError{RequestID: 3, Message: "publish admission closed"})
		s.publish(nil, "x")
		eventually(t, "drop counted", func() bool { return e.count(PublishUnanswered) == 1 })
	})
}
