package transport

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// serveVariable names the identity's folder to a test program that is to be an echo server for another one.
const serveVariable = "FELIX_TRANSPORT_SERVE"

// serveForParent prints the address and the engine's ceiling, then echoes until its input ends.
func serveForParent(dir string) int {
	id, err := LoadOrCreateIdentity(dir)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	l, err := Listen("127.0.0.1:0", Config{TLS: ServerTLS(id), InitialPacketSize: 1<<16 - 1, DisablePMTUD: true})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(l.Addr(), Engine().PacketCeiling)
	go func() {
		for {
			c, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			go func() {
				for {
					s, err := c.AcceptStream(context.Background())
					if err != nil {
						return
					}
					_, _ = io.Copy(s, s)
					_ = s.CloseWrite()
				}
			}()
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := l.Close(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// otherEngine builds this test program with the engine that the running one does not have.
func otherEngine(t *testing.T) string {
	t.Helper()
	root, dir := "..", t.TempDir()
	program := filepath.Join(dir, "other.test")
	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "GOFLAGS=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", args[0], err, out)
		}
	}
	build := []string{"test", "-c", "-o", program}
	if !Engine().Tuned {
		run("run", "./internal/enginegen", "-out", dir)
		build = append(build, "-modfile="+filepath.Join(dir, "tuned.mod"))
	}
	run(append(build, "./transport")...)
	return program
}

// TestEnginesMix: programs with different engines talk to each other, with packets that both can take.
func TestEnginesMix(t *testing.T) {
	cmd := exec.Command(otherEngine(t))
	cmd.Env = append(os.Environ(), serveVariable+"="+testDir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("server: %v", err)
		}
	})
	var addr string
	var ceiling int
	line, err := bufio.NewReader(out).ReadString('\n')
	if _, serr := fmt.Sscan(line, &addr, &ceiling); err != nil || serr != nil {
		t.Fatalf("server says %q: %v, %v", line, err, serr)
	}
	own := Engine().PacketCeiling
	if ceiling == own {
		t.Fatalf("both engines have a ceiling of %d", own)
	}
	d := dialer(t, func(c *Config) { c.InitialPacketSize = 1<<16 - 1; c.DisablePMTUD = true })
	for range 3 {
		c, err := d.Dial(testContext(t), addr)
		if err != nil {
			t.Fatal(err)
		}
		before := c.Stats()
		if err := roundTrip(testContext(t), c, string(make([]byte, 2<<20))); err != nil {
			t.Fatal(err)
		}
		after := c.Stats()
		sent := int(after.BytesSent-before.BytesSent) / int(after.PacketsSent-before.PacketsSent)
		received := int(after.BytesReceived-before.BytesReceived) / int(after.PacketsReceived-before.PacketsReceived)
		if limit := min(own, ceiling); sent > limit || received > limit || received < limit/2 {
			t.Errorf("packets of %d bytes sent and %d received on average, both engines can take %d", sent, received, limit)
		}
	}
}
