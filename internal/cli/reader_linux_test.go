package cli

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"felix/internal/testkit"
)

// TestReaderLeavesAQuietStream is `felix sub s | head -1` on a stream to which nothing more is published, where no write can fail.
func TestReaderLeavesAQuietStream(t *testing.T) {
	d := testkit.StartDaemon(t, nil)
	for name, pair := range map[string]func() (reader, writer *os.File, err error){"pipe": os.Pipe, "socket": socketPair} {
		t.Run(name, func(t *testing.T) {
			reader, writer, err := pair()
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			sub := program(t, d, "sub", "quiet")
			var errs bytes.Buffer
			sub.Stdout, sub.Stderr = writer, &errs
			if err := errors.Join(sub.Start(), writer.Close()); err != nil {
				t.Fatal(err)
			}
			subscribed(t, d, 1)
			pub := program(t, d, "pub", "quiet")
			pub.Stdin = strings.NewReader("first\n")
			if out, err := pub.CombinedOutput(); err != nil {
				t.Fatalf("pub: %v %s", err, out)
			}
			if line, err := bufio.NewReader(reader).ReadString('\n'); err != nil || line != "first\n" {
				t.Fatalf("got %q, %v", line, err)
			}
			if err := reader.Close(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- sub.Wait() }()
			select {
			case err := <-ended:
				if err != nil || errs.Len() > 0 {
					t.Errorf("sub: %v, stderr %q, want exit code 0", err, errs.String())
				}
			case <-time.After(20 * time.Second):
				sub.Process.Kill()
				<-ended
				t.Fatal("sub goes on without a reader")
			}
			subscribed(t, d, 0) // the broker was told
		})
	}
}

func socketPair() (reader, writer *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "reader"), os.NewFile(uintptr(fds[1]), "writer"), nil
}
