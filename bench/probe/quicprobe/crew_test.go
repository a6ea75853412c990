package quicprobe

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"felix/internal/testkit"
	"felix/transport"
)

// TestTheCauseIsNamed: of several processes that fail, the one is named that did
// not only lose its peer.
func TestTheCauseIsNamed(t *testing.T) {
	failed := func(role, text string, consequence bool) event {
		return event{from: &member{role: role}, said: message{Failure: &failure{Text: text, Consequence: consequence}}}
	}
	exit := func(e event) event {
		return event{from: e.from, err: errors.New("the relay process: the same once more")}
	}
	progress := event{from: &member{role: roleSubscriber}, said: message{Progress: new(int64)}}
	noticed := failed(rolePublisher, "closed by the peer", true)
	cause := failed(roleRelay, "boom", false)
	killed := event{from: &member{role: roleRelay}, err: errors.New("the relay process ended without a result: signal: killed")}
	for _, c := range []struct {
		name   string
		events []event
		want   string
	}{
		{"the cause first", []event{cause}, "the relay process: boom"},
		{"the cause second", []event{noticed, cause}, "the relay process: boom"},
		{"the cause after other news", []event{noticed, progress, failed(roleSubscriber, "closed too", true), cause}, "the relay process: boom"},
		{"a process that notices and ends", []event{noticed, exit(noticed), cause}, "the relay process: boom"},
		{"a process that was killed", []event{noticed, killed}, "signal: killed"},
		{"no better reason", []event{noticed, exit(noticed)}, "the publisher process: closed by the peer"},
		{"an end too early", []event{{from: &member{role: roleRelay}, err: io.EOF}}, "the relay process ended before the run did"},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := &crew{members: []*member{{role: roleSubscriber}}, events: make(chan event, len(c.events))}
			for _, e := range c.events {
				e.from.failed = false
				k.events <- e
			}
			start := time.Now()
			err := k.await(t.Context(), func(m *member) bool { return m.done != nil })
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
			if took := time.Since(start); took > causeWait {
				t.Errorf("%s: took %v", c.name, took)
			}
		})
	}
}

func TestFailuresSayWhetherTheyAreConsequences(t *testing.T) {
	for _, c := range []struct {
		err         error
		consequence bool
	}{
		{&transport.ApplicationError{Remote: true}, true},
		{&transport.ApplicationError{}, false},
		{transport.ErrIdleTimeout, true},
		{errOrphaned, false},
		{io.ErrUnexpectedEOF, false},
	} {
		var out bytes.Buffer
		p := &party{out: json.NewEncoder(&out)}
		err := p.fail(t.Context(), c.err)
		if !errors.Is(err, c.err) {
			t.Errorf("%v became %v", c.err, err)
		}
		if got := strings.Contains(out.String(), `"consequence":true`); got != c.consequence {
			t.Errorf("%v: said %s", c.err, out.String())
		}
	}
}

func TestPartyRefusesNonsense(t *testing.T) {
	for name, c := range map[string]struct {
		s    spec
		says string
	}{
		"no role":        {spec{Options: small(Raw)}, "unknown role"},
		"no certificate": {spec{Options: small(Raw), Role: roleSender, Addr: "127.0.0.1:1"}, "certificate of the receiver"},
	} {
		var out bytes.Buffer
		in, feed := io.Pipe()
		err := runParty(t.Context(), c.s, in, &out)
		feed.Close()
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: %v, said %s", name, err, out.String())
		}
	}
}

// TestOrphanEnds: the end of its input ends a process, whatever it waits for.
func TestOrphanEnds(t *testing.T) {
	for _, greeting := range []int{-1, 0, 1} {
		out := make(lines, 10)
		in, feed := io.Pipe()
		errs := make(chan error, 1)
		go func() { errs <- runParty(t.Context(), spec{Options: small(Raw), Role: roleReceiver}, in, out) }()
		var first message
		if err := json.Unmarshal([]byte(<-out), &first); err != nil || first.Ready == nil {
			t.Fatalf("said %+v, %v", first, err)
		}
		if greeting >= 0 {
			stutter(t, *first.Ready, greeting)
		}
		feed.Close()
		select {
		case err := <-errs:
			if !errors.Is(err, errOrphaned) {
				t.Errorf("got %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("still there after a greeting of %d bytes", greeting)
		}
	}
}

// stutter connects and sends the start of a greeting.
func stutter(t *testing.T, to ready, n int) {
	t.Helper()
	leaf, err := x509.ParseCertificate(to.Cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	c, err := transport.ClientTLS(transport.ClientTLSOptions{RootCAs: pool})
	if err != nil {
		t.Fatal(err)
	}
	d, err := transport.NewDialer(transport.Config{TLS: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	conn, err := d.Dial(t.Context(), to.Addr)
	if err != nil {
		t.Fatal(err)
	}
	s, err := conn.OpenStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	if n > 0 {
		testkit.Eventually(t, 30*time.Second, "the rest of the greeting is waited for", func() bool {
			stacks := make([]byte, 1<<20)
			return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("io.ReadFull"))
		})
	}
}

// lines hands over what is written.
type lines chan string

func (l lines) Write(p []byte) (int, error) { l <- string(p); return len(p), nil }
