package transport

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"felix/internal/testkit"
)

// TestNothingIsLeft: after closing both ends, also in the middle of transfers and handshakes, no goroutine and no
// descriptor is left.
func TestNothingIsLeft(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	round := func() {
		l, err := Listen("127.0.0.1:0", Config{TLS: ServerTLS(testIdentity)})
		if err != nil {
			t.Fatal(err)
		}
		d, err := NewDialer(Config{TLS: clientTLS(t, ClientTLSOptions{RootCAs: testIdentity.Pool()})})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			_, server := pair(t, l, d)
			flood(t, server)
		}
		dial(t, d, l.Addr()) // nobody accepts it
		if err := vanish(l, d); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
		if err := d.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
	}
	round() // opens what the process keeps, such as the poller
	before := testkit.OpenDescriptors(t, 0)
	for range 5 {
		round()
	}
	eventually(t, "descriptors to be closed", func() bool { return testkit.OpenDescriptors(t, 0) <= before })
	if err := goleak.Find(ignore); err != nil {
		t.Error(err)
	}
}

// TestCloseTellsPeers: closing an endpoint ends the connections at once on the other side, too.
func TestCloseTellsPeers(t *testing.T) {
	for _, closeListener := range []bool{true, false} {
		l := listen(t, nil)
		d := dialer(t, nil)
		client, server := pair(t, l, d)
		other, closing := server, d.Close
		if closeListener {
			other, closing = client, l.Close
		}
		if err := closing(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-other.Context().Done():
			checkClosed(t, other.Err(), ApplicationError{Remote: true})
		case <-time.After(patience):
			t.Error("the other side was not told")
		}
	}
}

// TestSocketFailure: a listener whose socket is gone says so instead of waiting for ever.
func TestSocketFailure(t *testing.T) {
	l := listen(t, nil)
	if err := l.tr.sock.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := l.Accept(ctx); err != ErrEndpointClosed {
		t.Errorf("accept: %v, want ErrEndpointClosed", err)
	}
}
