package e2e

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"felix/client"
	"felix/daemon"
	"felix/internal/testkit"
)

// TestReloadStorm is field case F17: many reloads with live sessions, while
// further clients dial. Nothing is lost, every dial succeeds, and the daemon
// goes on with the UDP socket it has.
func TestReloadStorm(t *testing.T) {
	t.Parallel()
	const reloads, sessions = 20, 10
	config := filepath.Join(t.TempDir(), "felixd.yaml")
	write := func(i int) {
		text := fmt.Sprintf("registry:\n  streams:\n    - {tenant: t1, namespace: default, stream: reload-%d}\n", i)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(0)
	d := testkit.StartDaemon(t, nil, "--config", config)
	sockets := udpSockets(t, d.Addr)
	if sockets == 0 {
		t.Fatal("the daemon's socket is not in the kernel's table: this tests nothing")
	}

	done := make(chan struct{})
	var work sync.WaitGroup
	for i := range sessions {
		c := connect(t, clientConfig(t, d))
		sub, err := c.Subscribe(t.Context(), fmt.Sprintf("session-%d", i), client.WithoutResume())
		if err != nil {
			t.Fatal(err)
		}
		work.Go(func() { sessionUntil(t, done, c, sub) })
	}
	dials := 0
	work.Go(func() {
		for ; !isClosed(done); dials++ {
			dialOnce(t, clientConfig(t, d))
			time.Sleep(100 * time.Millisecond) // the case says: a dial now and then
		}
	})
	for i := 1; i <= reloads; i++ {
		write(i)
		d.Signal(syscall.SIGHUP)
		name := fmt.Sprintf("reload-%d", i)
		testkit.Eventually(t, 20*time.Second, name+" exists", func() bool {
			for _, s := range adminGet[[]daemon.StreamReport](t, d, "/v1/streams") {
				if s.Stream == name {
					return true
				}
			}
			return false
		})
		if n := udpSockets(t, d.Addr); n != sockets {
			t.Errorf("%d UDP sockets on the port after reload %d, %d before", n, i, sockets)
		}
		time.Sleep(100 * time.Millisecond) // traffic between the reloads
	}
	close(done)
	work.Wait()
	t.Logf("%d dials during %d reloads", dials, reloads)
	for i := range sessions {
		st := checkLedger(t, d, fmt.Sprintf("session-%d", i))
		if f := st["fanout"]; f.In == 0 || f.In != f.Out+f.Queued {
			t.Errorf("session %d: %+v", i, f)
		}
	}
}

// sessionUntil publishes numbered messages and expects each one back.
func sessionUntil(t *testing.T, done <-chan struct{}, c *client.Client, sub *client.Subscription) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	for n := uint64(0); !isClosed(done); n++ {
		if err := c.Publish(ctx, sub.Stream(), numbered(n, 100)); err != nil {
			t.Errorf("%s: publish %d: %v", sub.Stream(), n, err)
			return
		}
		e, err := sub.Next(ctx)
		if err != nil || binary.BigEndian.Uint64(e.Payload) != n {
			t.Errorf("%s: event %d: %v, %v", sub.Stream(), n, e.Payload[:min(8, len(e.Payload))], err)
			return
		}
		time.Sleep(2 * time.Millisecond) // leaves the processor to the others
	}
}

func dialOnce(t *testing.T, cfg client.Config) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, err := client.Connect(ctx, cfg)
	if err != nil {
		t.Errorf("dial during a reload: %v", err)
		return
	}
	if err := c.Publish(ctx, "dials", []byte("here")); err != nil {
		t.Errorf("publish during a reload: %v", err)
	}
	if err := c.Close(ctx); err != nil {
		t.Errorf("close during a reload: %v", err)
	}
	if failures := c.Stats().DialFailures; failures > 0 {
		t.Errorf("%d attempts to dial failed during a reload", failures)
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// udpSockets counts the UDP sockets bound to the port of addr.
func udpSockets(t *testing.T, addr string) (n int) {
	t.Helper()
	port, err := strconv.Atoi(addr[strings.LastIndexByte(addr, ':')+1:])
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"/proc/net/udp", "/proc/net/udp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 1 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
				n++
			}
		}
	}
	return n
}
