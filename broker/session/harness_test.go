package session

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"felix/broker"
	"felix/broker/auth"
	"felix/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testTenant = "t1"
	testNS     = "default"
	topic      = "conformance"
	testCache  = "primary"

	// patience is how long anything that should happen may take on a loaded
	// machine.
	patience = 30 * time.Second
)

// env is a server over its own broker, with the conformance tenant.
type env struct {
	t      testing.TB
	broker *broker.Broker
	server *Server
	issuer *auth.Issuer

	serving sync.WaitGroup
}

type envOption func(*Config, *broker.Options)

func newEnv(t testing.TB, opts ...envOption) *env {
	t.Helper()
	cfg, o := DefaultConfig(), broker.DefaultOptions()
	for _, f := range opts {
		f(&cfg, &o)
	}
	key := auth.ConformanceKey()
	e := &env{t: t, broker: broker.New(o), issuer: auth.NewIssuer(key)}
	for _, err := range []error{
		e.broker.CreateStream(broker.Key{Tenant: testTenant, Namespace: testNS, Name: topic}, broker.StreamOptions{}),
		e.broker.CreateCache(broker.Key{Tenant: testTenant, Namespace: testNS, Name: testCache}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	e.server = New(cfg, e.broker, auth.NewVerifier(auth.NewKeySet(key.Public())))
	return e
}

// close ends everything. Connections must have been closed.
func (e *env) close() {
	e.serving.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := e.broker.Close(ctx); err != nil {
		e.t.Error(err)
	}
}

// dial connects a new client, which is closed at the end of the test.
func (e *env) dial(opts ...func(*memLink)) *testClient {
	e.t.Helper()
	l := newMemLink()
	for _, f := range opts {
		f(l)
	}
	c := &testClient{env: e, t: e.t, link: l, served: make(chan struct{})}
	e.serving.Go(func() {
		defer close(c.served)
		c.serveErr = e.server.Serve(context.Background(), memConn{l})
	})
	return c
}

// run is what most tests need: an environment and one client.
func run(t *testing.T, f func(*env, *testClient), opts ...envOption) {
	t.Helper()
	e := newEnv(t, opts...)
	c := e.dial()
	f(e, c)
	c.close()
	e.close()
}

func (e *env) token(perms ...string) string {
	e.t.Helper()
	c := auth.DemoClaims(testTenant)
	if len(perms) > 0 {
		c.Permissions = perms
	}
	s, err := e.issuer.Issue(c)
	if err != nil {
		e.t.Fatal(err)
	}
	return s
}

type testClient struct {
	env      *env
	t        testing.TB
	link     *memLink
	served   chan struct{}
	serveErr error
}

func (c *testClient) close() {
	c.link.close(0, "")
	<-c.served
}

// raw opens a control stream that has not authenticated.
func (c *testClient) raw() *testStream {
	s := c.link.openStream()
	return &testStream{t: c.t, s: s, frames: wire.NewFrameReader(s, wire.DefaultMaxFrameBytes)}
}

func flags(n uint16) *uint16 { return &n }
func id(n uint64) *uint64    { return &n }

// control opens a control stream that offers all flags.
func (c *testClient) control(perms ...string) *testStream {
	c.t.Helper()
	s := c.raw()
	s.send(&wire.Auth{TenantID: testTenant, Token: c.env.token(perms...), ClientFlags: flags(63)})
	expect(s, &wire.AuthOK{ServerFlags: 63})
	return s
}

// controlOf is control for another tenant.
func (c *testClient) controlOf(tenant string) *testStream {
	c.t.Helper()
	token, err := c.env.issuer.Issue(auth.DemoClaims(tenant))
	if err != nil {
		c.t.Fatal(err)
	}
	s := c.raw()
	s.send(&wire.Auth{TenantID: tenant, Token: token, ClientFlags: flags(63)})
	expect(s, &wire.AuthOK{ServerFlags: 63})
	return s
}

// events accepts the next event stream and checks its first frame.
func (c *testClient) events() (*testStream, uint64) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	u, err := c.link.acceptUni(ctx)
	if err != nil {
		c.t.Fatal("no event stream:", err)
	}
	s := &testStream{t: c.t, s: u, frames: wire.NewFrameReader(u, wire.DefaultMaxFrameBytes)}
	hello, ok := s.message().(*wire.EventStreamHello)
	if !ok {
		c.t.Fatal("event stream does not begin with event_stream_hello")
	}
	return s, hello.SubscriptionID
}

// subscribe opens a subscription and returns its event stream.
func (c *testClient) subscribe(m wire.Subscribe) (*testStream, uint64) {
	c.t.Helper()
	m.TenantID, m.Namespace = testTenant, testNS
	if m.Stream == "" {
		m.Stream = topic
	}
	s := c.control()
	s.send(&m)
	s.fin()
	got, ok := s.message().(*wire.Subscribed)
	if !ok {
		c.t.Fatal("not subscribed")
	}
	s.ended()
	ev, hello := c.events()
	if hello != got.SubscriptionID {
		c.t.Fatalf("hello for %d, subscribed %d", hello, got.SubscriptionID)
	}
	return ev, hello
}

// testStream is the client's end of a stream.
type testStream struct {
	t      testing.TB
	s      *memStream
	frames *wire.FrameReader
}

// bytes sends raw bytes.
func (s *testStream) bytes(b []byte) {
	s.t.Helper()
	_ = s.s.SetWriteDeadline(time.Now().Add(patience))
	if _, err := s.s.Write(b); err != nil {
		s.t.Fatal("write:", err)
	}
}

func (s *testStream) send(m wire.Message) {
	s.t.Helper()
	b, err := wire.AppendMessageFrame(nil, m)
	if err != nil {
		s.t.Fatal(err)
	}
	s.bytes(b)
}

// publish sends a binary publish batch to the conformance stream.
func (s *testStream) publish(request *uint64, payloads ...string) {
	s.t.Helper()
	s.bytes(publishFrame(s.t, request, payloads...))
}

func publishFrame(t testing.TB, request *uint64, payloads ...string) []byte {
	t.Helper()
	h := wire.PublishHeader{TenantID: testTenant, Namespace: testNS, Stream: topic}
	if request != nil {
		h.Acked, h.RequestID, h.Ack = true, *request, wire.AckPerBatch
	}
	return batchFrame(t, h, payloads...)
}

func batchFrame(t testing.TB, h wire.PublishHeader, payloads ...string) []byte {
	t.Helper()
	list := make([][]byte, len(payloads))
	for i, p := range payloads {
		list[i] = []byte(p)
	}
	b, err := wire.AppendPublishBatch(nil, h, list)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (s *testStream) fin() {
	s.t.Helper()
	if err := s.s.CloseWrite(); err != nil {
		s.t.Fatal("close:", err)
	}
}

// frame returns the next frame.
func (s *testStream) frame() wire.Frame {
	s.t.Helper()
	_ = s.s.SetReadDeadline(time.Now().Add(patience))
	f, err := s.frames.Next()
	if err != nil {
		s.t.Fatal("next frame:", err)
	}
	return f
}

// message returns the next frame, which must be a JSON message.
func (s *testStream) message() wire.Message {
	s.t.Helper()
	f := s.frame()
	if f.Flags != 0 {
		s.t.Fatalf("frame with flags %#x, want a message", f.Flags)
	}
	m, err := wire.ParseMessage(f.Payload())
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

// ack returns the next frame, which must be a binary ack.
func (s *testStream) ack() wire.PublishAck {
	s.t.Helper()
	f := s.frame()
	if f.Flags != wire.FlagPublishAck {
		s.t.Fatalf("frame with flags %#x: %s, want an ack", f.Flags, f.Payload())
	}
	a, err := wire.ParsePublishAck(f.Payload())
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

// acked checks that the next frame is the ack of a request, with that error.
func (s *testStream) acked(request uint64, errText string) {
	s.t.Helper()
	want := wire.PublishAck{RequestID: request, Failed: errText != "", Message: errText}
	if got := s.ack(); got != want {
		s.t.Fatalf("ack %+v, want %+v", got, want)
	}
}

// ended checks that the broker ends its side without a further frame.
func (s *testStream) ended() {
	s.t.Helper()
	_ = s.s.SetReadDeadline(time.Now().Add(patience))
	if f, err := s.frames.Next(); err != io.EOF {
		s.t.Fatalf("frame %#x %q, error %v; want the end of the stream", f.Flags, f.Raw, err)
	}
}

// stopped checks that the broker tells the client to stop sending.
func (s *testStream) stopped(want Code) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if code, ok := s.s.stopped(); ok {
			if Code(code) != want {
				s.t.Fatalf("stopped with %v, want %v", Code(code), want)
			}
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("not stopped, want %v", want)
		}
	}
}

// alive checks that the stream still answers.
func (s *testStream) alive() {
	s.t.Helper()
	const probe = 0xA11CE
	s.publish(id(probe), "alive")
	s.acked(probe, "")
}

// expect checks that the next frame is exactly m.
func expect(s *testStream, m wire.Message) {
	s.t.Helper()
	want, err := wire.AppendMessageFrame(nil, m)
	if err != nil {
		s.t.Fatal(err)
	}
	if f := s.frame(); string(f.Raw) != string(want) {
		s.t.Fatalf("got flags %#x %q, want %q", f.Flags, f.Payload(), want[wire.HeaderLen:])
	}
}

func expectError(s *testStream, text string) {
	s.t.Helper()
	expect(s, &wire.Error{Message: text})
}

// event is one event as a client sees it.
type event struct {
	payload string
	offset  uint64
	has     bool
}

// take reads n events from an event stream.
func (s *testStream) take(n int) []event {
	s.t.Helper()
	var out []event
	for len(out) < n {
		f := s.frame()
		b, err := wire.ParseEventBatch(f.Flags, f.Payload())
		if err != nil {
			s.t.Fatal(err)
		}
		i := uint64(0)
		for p := range b.Items.All() {
			e := event{payload: string(p), has: b.HasBase}
			if b.HasBase {
				e.offset = b.BaseOffset + i
			}
			out = append(out, e)
			i++
		}
	}
	if len(out) > n {
		s.t.Fatalf("%d events, want %d", len(out), n)
	}
	return out
}

func (s *testStream) takePayloads(want ...string) {
	s.t.Helper()
	for i, e := range s.take(len(want)) {
		if e.payload != want[i] {
			s.t.Fatalf("event %d is %q, want %q", i, e.payload, want[i])
		}
	}
}

// eventually polls for a condition.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("did not happen:", what)
		}
	}
}

// count returns a counter of the server.
func (e *env) count(c Counter) uint64 { return e.server.Stats().Counts[c] }
