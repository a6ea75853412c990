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
func Run(ctx context.Context, o Options, l probe.Launcher, bar io.Writer) (Report, error) {
	if err := o.validate(); err != nil {
		return Report{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	before := countersNow()
	s, r, err := measure(ctx, o, l, bar)
	if err != nil && ctx.Err() != nil { // which killed the processes
		return Report{}, context.Cause(ctx)
	}
	if err != nil {
		return Report{}, err
	}
	report := newReport(o, s, r, before, countersNow())
	return report, probe.Invalid(report.InvalidReasons...)
}

// measure runs both processes.
func measure(ctx context.Context, o Options, l probe.Launcher, bar io.Writer) (s senderResult, r receiverResult, err error) {
	creditR, creditW, err := os.Pipe()
	if err != nil {
		return s, r, fmt.Errorf("flow control: %w", err)
	}
	defer closeQuietly(creditR)
	defer closeQuietly(creditW)
	run := runNumber()

	receiver, err := l.Start(ctx, receiveName, receiverSpec{Options: o, Run: run}, inherit(creditW))
	if err != nil {
		return s, r, err
	}
	defer receiver.Kill()
	closeQuietly(creditW) // the child has its own; the sender must see the end when that one is gone
	var ready receiverReady
	if err := receiver.Hear(&ready); err != nil {
		return s, r, err
	}
	sender, err := l.Start(ctx, sendName, senderSpec{Options: o, Run: run, To: ready.Addr, Window: o.window(ready.Granted)}, inherit(creditR))
	if err != nil {
		return s, r, err
	}
	defer sender.Kill()
	stop := showProgress(bar, o)
	err = sender.Hear(&s)
	stop()
	if err != nil {
		return s, r, err
	}
	if err := sender.Wait(); err != nil {
		return s, r, err
	}
	sent := s.Stats[sentDatagrams]
	if sent == 0 {
		return s, r, probe.Invalid("no datagram was sent")
	}
	_ = receiver.Tell(sent) // fails if the receiver has ended, and Hear says how
	if err := receiver.Hear(&r); err != nil {
		return s, r, err
	}
	return s, r, receiver.Wait()
}

// closeQuietly closes a socket or a pipe whose work is done.
func closeQuietly(c io.Closer) { _ = c.Close() }

// inherit passes a pipe on to a child.
func inherit(pipe *os.File) probe.ChildOptions { return probe.ChildOptions{Files: []*os.File{pipe}} }

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
