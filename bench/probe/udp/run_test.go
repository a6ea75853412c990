package udpprobe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"felix/bench/probe"
	"felix/internal/testkit"
	"felix/platform"
	"felix/udp"
)

// short is a run that is valid on a slow machine with the race detector: small
// buffers are filled often enough.
func short(segment, aggregate int) Options {
	return Options{Segment: segment, Aggregate: aggregate, Duration: 150 * time.Millisecond, Buffer: 1 << 20}
}

func TestEveryDatagramArrives(t *testing.T) {
	off := short(1452, 0)
	off.GSO, off.GRO, off.MMsg = udp.Off, udp.Off, udp.Off
	v6 := short(1452, 0)
	v6.V6 = true
	batched := short(1200, 8*1200)
	batched.GSO, batched.GRO = udp.Off, udp.Off
	for name, o := range map[string]Options{
		"ordinary packets":          short(1452, 0),
		"jumbo packets":             short(16336, 163360),
		"IPv6":                      v6,
		"everything off":            off,
		"batches only":              batched,
		"a datagram a write":        short(4096, 4096),
		"writes beyond the window":  {Segment: 1200, Aggregate: 1200 * 200, Duration: 150 * time.Millisecond, Buffer: 128 << 10},
		"smallest datagrams at all": short(16, 16*64),
	} {
		t.Run(name, func(t *testing.T) {
			if o.V6 {
				requireIPv6(t)
			}
			x, err := Run(t.Context(), o, self(), nil)
			if err != nil {
				t.Fatal(err)
			}
			checkAllArrived(t, x)
			if x.Refused != 0 {
				t.Errorf("refused: %v", x.RefusedByErrno)
			}
		})
	}
}

func requireIPv6(t *testing.T) {
	t.Helper()
	c, err := udp.Listen("udp6", "[::1]:0", udp.Config{})
	if err != nil {
		testkit.Missing(t, "IPv6 on loopback")
	}
	c.Close()
}

func checkAllArrived(t *testing.T, x Report) {
	t.Helper()
	if !x.Valid {
		t.Errorf("invalid: %v", x.InvalidReasons)
	}
	// A machine under load may lose some; none may be lost without a trace.
	if x.Offered != x.Sent || x.Sent != x.Received+x.Lost || x.Unaccounted != 0 {
		t.Errorf("offered %d, sent %d, received %d, lost %d, unaccounted %d", x.Offered, x.Sent, x.Received, x.Lost, x.Unaccounted)
	}
	if x.Duplicates != 0 || x.Corrupt != 0 {
		t.Errorf("%d duplicates, %d corrupt", x.Duplicates, x.Corrupt)
	}
	if x.MBPerS <= 0 || x.SendCallsPerDatagram <= 0 || x.ReceiveCallsPerDatagram <= 0 {
		t.Errorf("%v MB/s, %v and %v calls a datagram", x.MBPerS, x.SendCallsPerDatagram, x.ReceiveCallsPerDatagram)
	}
}

// TestRefusedSendsAreSentAgain: planned without regard to the limits, 10 x 16336
// bytes are refused as too long each time. That is counted, and everything
// still arrives.
func TestRefusedSendsAreSentAgain(t *testing.T) {
	if !platform.UDPSegment().Supported() {
		testkit.Missing(t, "Linux 4.18 (UDP_SEGMENT)")
	}
	o := short(16336, 163360)
	o.NoClamp = true
	x, err := Run(t.Context(), o, self(), nil)
	if err != nil {
		t.Fatal(err)
	}
	checkAllArrived(t, x)
	writes := x.Offered / 10
	if x.RefusedByErrno["emsgsize"] < writes || x.Refused != x.RefusedByErrno["emsgsize"] {
		t.Errorf("%d writes, refused %v", writes, x.RefusedByErrno)
	}
}

// TestOverrunIsCounted lets the sender overrun a small buffer: what is lost is
// exactly what the receiving socket counted.
func TestOverrunIsCounted(t *testing.T) {
	o := short(1452, 0)
	o.Buffer, o.GRO = 64<<10, udp.Off // without coalescing each drop is one datagram
	s, r := overrun(t, o)
	x := newReport(o, s, r, counted(), counted())
	if x.Lost == 0 {
		t.Fatalf("%d datagrams through a buffer of %d KiB without loss", x.Sent, r.Granted.Read.Granted>>10)
	}
	if drops := r.Stats[overflowDrops]; drops != x.Lost {
		t.Errorf("lost %d, the socket counted %d", x.Lost, drops)
	}
	if x.Unaccounted != 0 {
		t.Errorf("unaccounted %d of %d lost", x.Unaccounted, x.Lost)
	}
}

// overrun plays both processes with a window far beyond the buffer.
func overrun(t *testing.T, o Options) (s senderResult, r receiverResult) {
	t.Helper()
	creditR, creditW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer creditR.Close()
	defer creditW.Close()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := runReceiver(receiverSpec{Options: o, Run: 1}, creditW, inR, outW)
		outW.CloseWithError(err)
		done <- err
	}()
	replies := json.NewDecoder(outR)
	var ready receiverReady
	if err := replies.Decode(&ready); err != nil {
		t.Fatal(err)
	}
	var sent bytes.Buffer
	if err := runSender(senderSpec{Options: o, Run: 1, To: ready.Addr, Window: 1 << 30}, creditR, &sent); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(sent.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(inW).Encode(s.Stats[sentDatagrams]); err != nil {
		t.Fatal(err)
	}
	if err := replies.Decode(&r); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return s, r
}

// TestOrphanedReceiverEnds: without a parent the receiver must not wait for ever.
func TestOrphanedReceiverEnds(t *testing.T) {
	for name, in := range map[string]string{"end of input": "", "nonsense": "many\n", "zero": "0\n"} {
		outR, outW := io.Pipe()
		go func() {
			_, _ = io.Copy(io.Discard, outR)
		}()
		err := runReceiver(receiverSpec{Options: short(1452, 0), Run: 1}, io.Discard, strings.NewReader(in), outW)
		outW.Close()
		if err == nil {
			t.Errorf("%s: the receiver was content", name)
		}
	}
}

func TestCancelEndsBothProcesses(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	o := short(1452, 0)
	o.Duration = 5 * time.Minute
	start := time.Now()
	if _, err := Run(ctx, o, self(), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a run that was cut short gave %v", err)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("took %v", took)
	}
}

func TestChildrenThatFail(t *testing.T) {
	o := short(1452, 0)
	for name, c := range map[string]struct {
		launcher probe.Launcher
		says     string
	}{
		"no program":     {probe.Launcher{Program: "/nonexistent/felix"}, "no such file"},
		"wrong command":  {probe.Launcher{Args: []string{"probe", "nothing"}}, "unknown flag"},
		"says nothing":   {probe.Launcher{Program: "/bin/true"}, "without a result"},
		"prints nothing": {probe.Launcher{Program: "/bin/cat", Args: []string{"/dev/null"}}, "process"},
	} {
		_, err := Run(t.Context(), o, c.launcher, nil)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

func TestHopelessSenderGivesUp(t *testing.T) {
	conn, err := udp.Listen("udp4", "127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	o := short(1452, 0)
	o.Duration = maxDuration
	b := newBlast(senderSpec{Options: o, Run: 1})
	conn.Close() // every write fails
	if _, err := b.run(conn, &window{size: 1 << 40}); !errors.Is(err, errNothingLeft) {
		t.Errorf("got %v", err)
	}
}

func execute(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	root := program()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(io.Discard)
	root.SetArgs(append([]string{"probe", "udp"}, args...))
	err = root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestCommandPrintsOneObject(t *testing.T) {
	out, err := execute(t, "--duration", "150ms", "--segment", "4096", "--buffer", "1048576", "--json", "-4")
	if err != nil {
		t.Fatal(err)
	}
	var x map[string]any
	if err := json.Unmarshal([]byte(out), &x); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	for _, key := range []string{
		"valid", "mb_per_s", "elapsed_us", "offered_datagrams", "sent_datagrams", "received_datagrams", "lost_datagrams",
		"unaccounted_datagrams", "refused", "refused_by_errno", "send_syscalls_per_datagram", "receive_syscalls_per_datagram",
		"send_engine", "receive_engine", "sender", "receiver", "kernel", "link", "host", "settings",
	} {
		if _, ok := x[key]; !ok {
			t.Errorf("no key %s", key)
		}
	}
	text, err := execute(t, "--duration", "150ms", "--segment", "4096", "--buffer", "1048576")
	if err != nil || !strings.Contains(text, "MB/s") {
		t.Errorf("table: %v\n%s", err, text)
	}
}

func TestCommandRefuses(t *testing.T) {
	var bad *probe.InvalidMeasurement
	for _, args := range [][]string{{"--segment", "0"}, {"--segment", "100000"}, {"--duration", "99ms"}, {"--aggregate", "100"}} {
		if out, err := execute(t, args...); !errors.As(err, &bad) || out != "" {
			t.Errorf("%v: %v, printed %q", args, err, out)
		}
	}
	for _, args := range [][]string{{"-4", "-6"}, {"--gso", "sometimes"}, {"more"}} {
		if _, err := execute(t, args...); err == nil || errors.As(err, &bad) {
			t.Errorf("%v: %v, want a usage error", args, err)
		}
	}
}

func TestEnvironmentSwitchesApplyUnlessAFlagIsGiven(t *testing.T) {
	t.Setenv("FELIX_UDP_GSO", "off")
	t.Setenv("FELIX_UDP_RECVMMSG", "off")
	out, err := execute(t, "--duration", "150ms", "--segment", "4096", "--buffer", "1048576", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var x Report
	if err := json.Unmarshal([]byte(out), &x); err != nil {
		t.Fatal(err)
	}
	if x.Settings.GSO != udp.Off || x.Settings.MMsg != udp.Off || x.Settings.GRO != udp.Auto {
		t.Errorf("settings %+v", x.Settings)
	}
	t.Setenv("FELIX_UDP_GSO", "perhaps")
	if _, err := execute(t, "--duration", "150ms"); err == nil || !strings.Contains(err.Error(), "FELIX_UDP_GSO") {
		t.Errorf("a bad variable: %v", err)
	}
}

func TestProgressStops(t *testing.T) {
	w := make(drawn, 1)
	stop := showProgress(w, Options{Duration: time.Minute})
	select {
	case <-w:
	case <-time.After(30 * time.Second):
		t.Error("nothing was drawn")
	}
	stop()
	showProgress(nil, Options{})() // nothing to draw on
}

// drawn is a terminal that tells of being written to.
type drawn chan struct{}

func (d drawn) Write(p []byte) (int, error) {
	select {
	case d <- struct{}{}:
	default:
	}
	return len(p), nil
}
