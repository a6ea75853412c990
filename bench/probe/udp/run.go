package udpprobe

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"felix/bench/probe"
	"felix/platform"
)

// Run measures once. What is meaningless from the start, and what turns out not
// to be a measurement, gives a [*probe.InvalidMeasurement]; in the second case
// the report is filled in besides. When ctx ends both processes are killed.
// bar, if not nil, gets a progress bar.
func Run(ctx context.Context, o Options, l Launcher, bar io.Writer) (Report, error) {
	if err := o.validate(); err != nil {
		return Report{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	before := countersNow()
	s, r, err := measure(ctx, o, l, bar)
	if err != nil {
		return Report{}, err
	}
	report := newReport(o, s, r, before, countersNow())
	return report, probe.Invalid(report.InvalidReasons...)
}

// measure runs both processes.
func measure(ctx context.Context, o Options, l Launcher, bar io.Writer) (s senderResult, r receiverResult, err error) {
	creditR, creditW, err := os.Pipe()
	if err != nil {
		return s, r, fmt.Errorf("flow control: %w", err)
	}
	defer closeQuietly(creditR)
	defer closeQuietly(creditW)
	run := runNumber()

	receiver, err := l.start(ctx, receiveName, receiverSpec{Options: o, Run: run}, creditW)
	if err != nil {
		return s, r, err
	}
	defer receiver.kill()
	closeQuietly(creditW) // the child has its own; the sender must see the end when that one is gone
	var ready receiverReady
	if err := receiver.hear(&ready); err != nil {
		return s, r, err
	}
	sender, err := l.start(ctx, sendName, senderSpec{Options: o, Run: run, To: ready.Addr, Window: o.window(ready.Granted)}, creditR)
	if err != nil {
		return s, r, err
	}
	defer sender.kill()
	stop := showProgress(bar, o)
	err = sender.hear(&s)
	stop()
	if err != nil {
		return s, r, err
	}
	if err := sender.finish(); err != nil {
		return s, r, err
	}
	sent := s.Stats[sentDatagrams]
	if sent == 0 {
		return s, r, probe.Invalid("no datagram was sent")
	}
	if _, err := fmt.Fprintln(receiver.in, sent); err != nil {
		return s, r, receiver.explain(err)
	}
	if err := receiver.hear(&r); err != nil {
		return s, r, err
	}
	return s, r, receiver.finish()
}

// closeQuietly closes a socket or a pipe whose work is done.
func closeQuietly(c io.Closer) { _ = c.Close() }

// runNumber tells this run's datagrams from anything else that arrives.
func runNumber() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:])
}

// counters are the host's. Nil where the system does not tell.
type counters struct {
	udp     *platform.UDPStats
	softnet *platform.SoftnetStats
}

func countersNow() counters {
	var c counters
	if u, err := platform.UDPSnmp(); err == nil {
		c.udp = &u
	}
	if s, err := platform.Softnet(); err == nil {
		c.softnet = &s
	}
	return c
}
