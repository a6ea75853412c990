package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"felix/wire"
)

// received is a publish request as the broker saw it.
type received struct {
	stream   string
	payloads []string
	acked    bool
	ack      wire.AckMode
	id       uint64
	keyed    bool
	key      string
	json     bool
}

// fakeBroker speaks the broker's side of the protocol, with a hook at each point that a test wants to disturb.
type fakeBroker struct {
	token  func(string) bool // default: any
	legacy bool              // answers auth with ok
	deaf   bool              // new streams are not served; guarded by mu
	flags  wire.Flags        // default wire.KnownFlags

	onPublish   func(r received) (text string, answer bool)                     // default: "", true
	onAck       func(st stream, r received, text string) bool                   // true: has answered itself
	onSubscribe func(c serverConn, st stream, m *wire.Subscribe) bool           // true: has answered itself
	onCache     func(st stream, m wire.Message) bool                            // true: has answered itself
	onEvents    func(uni sendStream, id uint64, base uint64, p [][]byte) []byte // the frame for live events
	offsets     bool                                                            // events carry offsets
	caches      []string                                                        // default c1

	mu      sync.Mutex
	log     []received
	topics  map[string]*fakeTopic
	cache   map[string][]byte
	auths   []string
	eofs    int // control streams that the client ended
	lastSub uint64
	probes  [][]byte
	starts  []*wire.Start
}

// fakeTopic is a stream that keeps everything; oldest is the first offset it pretends to hold.
type fakeTopic struct {
	records [][]byte
	oldest  uint64
	subs    map[uint64]*fakeSub
}

type fakeSub struct {
	id  uint64
	uni sendStream
}

func newFakeBroker(streams ...string) *fakeBroker {
	b := &fakeBroker{topics: map[string]*fakeTopic{}, cache: map[string][]byte{}, caches: []string{"c1"}}
	for _, s := range streams {
		b.topics[s] = &fakeTopic{subs: map[uint64]*fakeSub{}}
	}
	return b
}

// serve runs a connection until it ends.
func (b *fakeBroker) serve(c serverConn) {
	go b.serveUni(c)
	for {
		st, err := c.AcceptStream(c.Context())
		if err != nil {
			return
		}
		go b.serveStream(c, st)
	}
}

// serveUni takes the signs of life.
func (b *fakeBroker) serveUni(c serverConn) {
	for {
		st, err := c.AcceptUniStream(c.Context())
		if err != nil {
			return
		}
		go func() {
			text, err := io.ReadAll(st)
			b.mu.Lock()
			defer b.mu.Unlock()
			if err == nil {
				b.probes = append(b.probes, text)
			}
		}()
	}
}

func (b *fakeBroker) serveStream(c serverConn, st stream) {
	fr := wire.NewFrameReader(st, wire.DefaultMaxFrameBytes)
	if !b.login(st, fr) {
		return
	}
	for {
		f, err := fr.Next()
		if err != nil {
			b.mu.Lock()
			b.eofs++
			b.mu.Unlock()
			_ = st.CloseWrite()
			return
		}
		if !b.handle(c, st, f) {
			_ = st.CloseWrite()
			return
		}
	}
}

func (b *fakeBroker) login(st stream, fr *wire.FrameReader) bool {
	f, err := fr.Next()
	if err != nil {
		return false
	}
	m, err := wire.ParseMessage(f.Payload())
	auth, ok := m.(*wire.Auth)
	if err != nil || !ok {
		send(st, &wire.Error{Message: wire.TextAuthRequired})
		_ = st.CloseWrite()
		return false
	}
	b.mu.Lock()
	b.auths = append(b.auths, auth.Token)
	deaf := b.deaf
	b.mu.Unlock()
	if deaf {
		return false
	}
	switch {
	case b.token != nil && !b.token(auth.Token):
		send(st, &wire.Error{Message: wire.TextAuthFailed})
		_ = st.CloseWrite()
		return false
	case b.legacy:
		send(st, &wire.OK{})
	default:
		flags := b.flags
		if flags == 0 {
			flags = wire.KnownFlags
		}
		send(st, &wire.AuthOK{ServerFlags: uint16(flags)})
	}
	return true
}

func send(w interface{ Write([]byte) (int, error) }, m wire.Message) {
	frame, err := wire.AppendMessageFrame(nil, m)
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(frame) // a client that is gone is the test's business
}

func (b *fakeBroker) handle(c serverConn, st stream, f wire.Frame) bool {
	if f.Flags.Has(wire.FlagPublishBatch) {
		p, err := wire.ParsePublishBatch(f.Flags, f.Payload())
		if err != nil {
			return false
		}
		r := received{
			stream: string(p.Stream), acked: p.Acked, ack: p.Ack, id: p.RequestID, keyed: p.HasKey, key: string(p.Key),
		}
		for item := range p.Items.All() {
			r.payloads = append(r.payloads, string(item))
		}
		b.publish(c, st, r)
		return true
	}
	m, err := wire.ParseMessage(f.Payload())
	if err != nil {
		return false
	}
	switch m := m.(type) {
	case *wire.PublishBatchJSON:
		r := received{stream: m.Stream, acked: m.RequestID != nil, ack: m.Ack, json: true}
		if r.acked {
			r.id = *m.RequestID
		}
		for _, p := range m.Payloads {
			r.payloads = append(r.payloads, string(p))
		}
		b.publish(c, st, r)
	case *wire.Subscribe:
		b.subscribe(c, st, m)
		return false
	case *wire.CachePut, *wire.CacheGet:
		b.serveCache(st, m)
	default:
		send(st, &wire.Error{Message: wire.TextUnexpectedMessage})
		return false
	}
	return true
}

func (b *fakeBroker) publish(c serverConn, st stream, r received) {
	text, answer := "", true
	if b.onPublish != nil {
		text, answer = b.onPublish(r)
	}
	b.mu.Lock()
	if c.Context().Err() != nil {
		b.mu.Unlock()
		return // lost with its connection
	}
	b.log = append(b.log, r)
	topic := b.topics[r.stream]
	if topic == nil && text == "" {
		text = wire.StreamNotFoundText("t1", "default", r.stream)
	}
	if text == "" {
		b.append(topic, r.payloads)
	}
	b.mu.Unlock()
	if !r.acked || !answer || b.onAck != nil && b.onAck(st, r, text) {
		return
	}
	answerTo(st, r, text)
}

func answerTo(st stream, r received, text string) {
	switch {
	case !r.json:
		_, _ = st.Write(wire.AppendPublishAck(nil, r.id, text))
	case text == "":
		send(st, &wire.PublishOK{RequestID: r.id})
	default:
		send(st, &wire.PublishError{RequestID: r.id, Message: text})
	}
}

// append stores records and sends them to the subscribers. It is called with the lock held.
func (b *fakeBroker) append(t *fakeTopic, payloads []string) {
	base := uint64(len(t.records))
	var list [][]byte
	for _, p := range payloads {
		list = append(list, []byte(p))
	}
	t.records = append(t.records, list...)
	for id, sub := range t.subs {
		frame := b.frame(sub, base, list)
		if _, err := sub.uni.Write(frame); err != nil {
			delete(t.subs, id)
		}
	}
}

func (b *fakeBroker) frame(sub *fakeSub, base uint64, list [][]byte) []byte {
	if b.onEvents != nil {
		return b.onEvents(sub.uni, sub.id, base, list)
	}
	var off *uint64
	if b.offsets {
		off = &base
	}
	frame, err := wire.AppendSharedEventBatch(nil, off, list)
	if err != nil {
		panic(err)
	}
	return frame
}

func (b *fakeBroker) subscribe(c serverConn, st stream, m *wire.Subscribe) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.starts = append(b.starts, m.Start)
	if b.onSubscribe != nil && b.onSubscribe(c, st, m) {
		return
	}
	t := b.topics[m.Stream]
	if t == nil {
		send(st, &wire.Error{Message: wire.StreamNotFoundText(m.TenantID, m.Namespace, m.Stream)})
		return
	}
	from, refused := t.from(m.Start)
	if refused != nil {
		send(st, refused)
		return
	}
	b.lastSub++
	uni, err := c.OpenUniStream(context.Background())
	if err != nil {
		return
	}
	sub := &fakeSub{id: b.lastSub, uni: uni}
	send(uni, &wire.EventStreamHello{SubscriptionID: sub.id})
	send(st, &wire.Subscribed{SubscriptionID: sub.id})
	if from < uint64(len(t.records)) {
		frame, err := wire.AppendEventBatch(nil, sub.id, &from, t.records[from:])
		if err != nil {
			panic(err)
		}
		_, _ = uni.Write(frame)
	}
	t.subs[sub.id] = sub
}

// from returns the first offset that a subscription gets.
func (t *fakeTopic) from(start *wire.Start) (uint64, *wire.SubscribeCursorError) {
	tail := uint64(len(t.records))
	switch {
	case start == nil || start.Kind == wire.StartLatest:
		return tail, nil
	case start.Kind == wire.StartEarliest:
		return t.oldest, nil
	case start.Offset < t.oldest:
		return 0, &wire.SubscribeCursorError{Reason: wire.CursorTooOld, Requested: start.Offset, Available: t.oldest}
	case start.Offset > tail:
		return 0, &wire.SubscribeCursorError{Reason: wire.CursorInFuture, Requested: start.Offset, Available: tail}
	}
	return start.Offset, nil
}

func (b *fakeBroker) serveCache(st stream, m wire.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.onCache != nil && b.onCache(st, m) {
		return
	}
	switch m := m.(type) {
	case *wire.CachePut:
		if !slices.Contains(b.caches, m.Cache) {
			send(st, &wire.Error{Message: wire.CacheNotFoundText(m.TenantID, m.Namespace, m.Cache)})
			return
		}
		b.cache[m.Key] = append([]byte{}, m.Value...)
		send(st, &wire.CacheOK{RequestID: *m.RequestID})
	case *wire.CacheGet:
		send(st, &wire.CacheValue{
			TenantID: m.TenantID, Namespace: m.Namespace, Cache: m.Cache, Key: m.Key,
			Value: b.cache[m.Key], RequestID: m.RequestID,
		})
	}
}

// requests returns the publishes so far.
func (b *fakeBroker) requests() []received {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]received(nil), b.log...)
}

// emit publishes records as another client would.
func (b *fakeBroker) emit(stream string, payloads ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.append(b.topics[stream], payloads)
}

func (b *fakeBroker) subscribers(stream string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.topics[stream].subs)
}

// testConfig is a configuration with short pauses.
func testConfig() Config {
	return Config{
		Addr: "127.0.0.1:1", Tenant: "t1", Token: "secret",
		Backoff: Backoff{Min: time.Millisecond, Max: 5 * time.Millisecond},
	}
}

// harness is a client with its broker.
type harness struct {
	*Client
	b   *fakeBroker
	net *fakeNetwork
}

// start connects a client to a broker and closes it when the test ends.
func start(t testing.TB, b *fakeBroker, change ...func(*Config)) *harness {
	t.Helper()
	return startWindow(t, 1<<20, b, change...)
}

// startWindow is start with a flow-control window of the given size for every stream.
func startWindow(t testing.TB, window int, b *fakeBroker, change ...func(*Config)) *harness {
	t.Helper()
	h := &harness{b: b, net: &fakeNetwork{window: window}}
	h.net.serve = b.serve
	cfg := testConfig()
	for _, f := range change {
		f(&cfg)
	}
	c, err := connectTo(cfg, h.net)
	if err != nil {
		t.Fatal(err)
	}
	h.Client = c
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			var failed *PublishError
			if !errors.As(err, &failed) {
				t.Errorf("close: %v", err)
			}
		}
		h.cut()
	})
	return h
}

func connectTo(cfg Config, n *fakeNetwork) (*Client, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return connect(context.Background(), cfg, n.dial)
}

// patient is a context for what should not fail.
func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func numbered(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(i)
	}
	return list
}

// cut loses every connection between two requests.
func (h *harness) cut() {
	h.b.mu.Lock()
	defer h.b.mu.Unlock()
	h.net.cut()
}
