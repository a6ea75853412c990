package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"felix/client"
	"felix/internal/testkit"
)

// TestRestart is field cases F15 and F36: kill -9, restart half a second later
// with busy clients. They notice by the stateless reset, long before any idle
// timeout, and are back without a new certificate.
func TestRestart(t *testing.T) {
	d := testkit.StartDaemon(t, nil)
	e, _ := readEndpoint(t, d)
	before, err := os.ReadFile(e.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	cfg := clientConfig(t, d)
	cfg.Retry = client.AtLeastOnce
	c := connect(t, cfg)
	sub, err := c.Subscribe(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}

	if err := d.Stop(syscall.SIGKILL); err == nil {
		t.Fatal("a killed daemon ended without an error")
	}
	time.Sleep(500 * time.Millisecond) // the case says half a second
	d.Start()
	restarted := time.Now()

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for i := 0; ; i++ {
		if err := c.Publish(ctx, "s", fmt.Append(nil, i)); err != nil {
			t.Fatalf("publish after the restart: %v", err)
		}
		next, stop := context.WithTimeout(ctx, 200*time.Millisecond)
		_, err := sub.Next(next)
		stop()
		if err == nil {
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			t.Fatalf("the subscription did not come back: %v", err)
		}
	}
	took := time.Since(restarted)
	t.Logf("publisher and subscriber were back %v after the restart", took)
	if took > 5*time.Second {
		t.Errorf("back after %v: only an idle timeout takes that long", took)
	}

	after, err := os.ReadFile(e.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(before) != string(after) {
		t.Error("the certificate changed with the restart")
	}
	secrets := 0
	err = filepath.Walk(d.DataDir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		if perm := info.Mode().Perm(); info.Mode().IsRegular() && perm&0o077 != 0 && filepath.Ext(path) == ".key" {
			t.Errorf("%s has mode %v: a secret that others can read", path, perm)
		}
		secrets++
		return nil
	})
	if err != nil || secrets == 0 {
		t.Errorf("looked at %d files of the data directory: %v", secrets, err)
	}
}

// TestLiveReaderLosesNothing is field case F34: defaults everywhere, one live
// subscriber, 20 000 unacknowledged publishes of a few bytes as fast as they go.
func TestLiveReaderLosesNothing(t *testing.T) {
	d := testkit.StartDaemon(t, nil)
	c := connect(t, clientConfig(t, d))
	reader := connect(t, clientConfig(t, d))
	sub, err := reader.Subscribe(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	const total = 20_000
	sent := make(chan error, 1)
	go func() {
		for i := range total {
			if err := c.Publish(t.Context(), "s", fmt.Append(nil, i), client.WithAck(client.AckNone)); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	for i := range total {
		e, err := sub.Next(ctx)
		if err != nil {
			t.Fatalf("after %d of %d: %v", i, total, err)
		}
		if string(e.Payload) != fmt.Sprint(i) {
			t.Fatalf("event %d is %q: something was lost or overtaken", i, e.Payload)
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}
