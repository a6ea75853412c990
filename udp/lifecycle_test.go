package udp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
)

func TestCloseEndsReadsAndSends(t *testing.T) {
	c := open(t, "udp4", "127.0.0.1:0", envConfig(t))
	done := make(chan error, 1)
	go func() {
		_, err := c.ReadBatch(messages(8, 1500), 0)
		done <- err
	}()
	runtime.Gosched()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("the read did not end")
	}
	to := netip.MustParseAddrPort("127.0.0.1:9")
	if _, err := c.WriteDatagrams(batch(1), nil, to); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if _, err := c.WriteTo([]byte{1}, net.UDPAddrFromAddrPort(to)); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if _, _, err := c.ReadFrom(make([]byte, 10)); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if err := c.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	c.Stats() // still answers
}

func TestReadDeadline(t *testing.T) {
	c := open(t, "udp4", "127.0.0.1:0", envConfig(t))
	done := make(chan error, 1)
	go func() {
		_, err := c.ReadBatch(messages(8, 1500), 0)
		done <- err
	}()
	if err := c.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	err := <-done
	var timeout net.Error
	if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Fatalf("%v", err)
	}
	c.SetReadDeadline(time.Now().Add(patience))
	if _, err := c.WriteTo([]byte("x"), c.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	wantData(t, receiveN(t, c, 1), [][]byte{[]byte("x")})
}

// Sends of many goroutines through one socket all arrive, each one's in order.
func TestConcurrentSenders(t *testing.T) {
	cfg := envConfig(t)
	rx, tx := open(t, "udp4", "127.0.0.1:0", cfg), open(t, "udp4", "127.0.0.1:0", cfg)
	const senders, each = 8, 200
	var wg sync.WaitGroup
	for id := range senders {
		wg.Go(func() {
			for i := 0; i < each; i += 10 {
				var ds [][]byte
				for k := range 10 {
					d := make([]byte, 300)
					binary.BigEndian.PutUint32(d, uint32(id))
					binary.BigEndian.PutUint32(d[4:], uint32(i+k))
					ds = append(ds, d)
				}
				if n, err := tx.WriteDatagrams(ds, nil, addrOf(rx)); n != 10 || err != nil {
					t.Error(n, err)
				}
				tx.Stats()
				tx.Capabilities()
			}
		})
	}
	next := [senders]uint32{}
	for _, d := range receiveN(t, rx, senders*each) {
		id, i := binary.BigEndian.Uint32(d.data), binary.BigEndian.Uint32(d.data[4:])
		if next[id] != i {
			t.Fatalf("sender %d: datagram %d, want %d", id, i, next[id])
		}
		next[id]++
	}
	wg.Wait()
}

// Several readers share the datagrams.
func TestConcurrentReaders(t *testing.T) {
	cfg := envConfig(t)
	rx, tx := open(t, "udp4", "127.0.0.1:0", cfg), open(t, "udp4", "127.0.0.1:0", cfg)
	const n = 400
	var mu sync.Mutex
	seen := map[uint32]int{}
	all := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			ms := messages(3, 1500)
			for {
				k, err := rx.ReadBatch(ms, 0)
				if err != nil {
					return
				}
				mu.Lock()
				for _, m := range ms[:k] {
					seen[binary.BigEndian.Uint32(m.Buffers[0])]++
				}
				if len(seen) == n {
					close(all)
				}
				mu.Unlock()
			}
		})
	}
	for i := 0; i < n; i += 20 {
		var ds [][]byte
		for k := range 20 {
			ds = append(ds, numbered(i+k, 900))
		}
		if _, err := tx.WriteDatagrams(ds, nil, addrOf(rx)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-all:
	case <-time.After(patience):
		t.Error("not everything arrived")
	}
	rx.Close()
	wg.Wait()
	if len(seen) != n {
		t.Errorf("%d of %d", len(seen), n)
	}
	for i, times := range seen {
		if times != 1 {
			t.Errorf("datagram %d arrived %d times", i, times)
		}
	}
}

func TestAdopt(t *testing.T) {
	uc, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer uc.Close()
	f, err := uc.File()
	if err != nil {
		t.Fatal(err)
	}
	tx := open(t, "udp4", "127.0.0.1:0", envConfig(t))
	// The datagram that arrived before the socket was ours is answered too.
	if _, err := tx.WriteTo([]byte("early"), uc.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	c, err := Adopt(f, envConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	defer c.Close()
	c.SetReadDeadline(time.Now().Add(patience))
	wantData(t, receiveN(t, c, 1), [][]byte{[]byte("early")})
	own := open(t, "udp4", "127.0.0.1:0", envConfig(t))
	if c.Granted() != own.Granted() || c.Capabilities() != own.Capabilities() {
		t.Errorf("adopted: %+v %+v\nown:     %+v %+v", c.Granted(), c.Capabilities(), own.Granted(), own.Capabilities())
	}
}

func TestAdoptRefusesOtherFiles(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	f, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if c, err := Adopt(f, Config{}); err == nil {
		c.Close()
		t.Error("a TCP socket was adopted")
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if c, err := Adopt(null, Config{}); err == nil {
		c.Close()
		t.Error("a file was adopted")
	}
}

func TestRawReadsAndWritesAreRefused(t *testing.T) {
	c := open(t, "udp4", "127.0.0.1:0", envConfig(t))
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	f := func(uintptr) bool { t.Error("was let through"); return true }
	if err := raw.Read(f); !errors.Is(err, ErrRawIO) {
		t.Error(err)
	}
	if err := raw.Write(f); !errors.Is(err, ErrRawIO) {
		t.Error(err)
	}
	c.Close()
	if err := raw.Control(func(uintptr) {}); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

func TestListenErrorsSayWhat(t *testing.T) {
	busy := open(t, "udp4", "127.0.0.1:0", envConfig(t))
	for _, addr := range []string{addrOf(busy).String(), "256.1.1.1:0", "127.0.0.1:99999", "no port"} {
		c, err := Listen("udp4", addr, envConfig(t))
		if err == nil {
			c.Close()
			t.Errorf("%s: opened", addr)
			continue
		}
		if msg := fmt.Sprint(err); len(msg) < 10 || msg[:4] != "udp:" {
			t.Errorf("%s: %s", addr, msg)
		}
	}
}
