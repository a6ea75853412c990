package udpprobe

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"felix/udp"
)

// receiverSpec is what the receiving process is told.
type receiverSpec struct {
	Options Options `json:"options"`
	Run     uint64  `json:"run"`
}

// receiverReady is the first line of the receiver's output.
type receiverReady struct {
	Addr    netip.AddrPort `json:"addr"`
	Granted int            `json:"granted_bytes"`
}

// receiverResult is the second.
type receiverResult struct {
	Received   uint64        `json:"received"` // distinct datagrams of the run
	Duplicates uint64        `json:"duplicates"`
	Foreign    uint64        `json:"foreign"`
	Corrupt    uint64        `json:"corrupt"`
	Reordered  uint64        `json:"reordered"`
	Timed      uint64        `json:"timed"` // datagrams that arrived within Elapsed
	Elapsed    time.Duration `json:"elapsed_ns"`
	side
}

// quiet is how long nothing must have arrived, after the sender has ended,
// before what is missing counts as lost.
const quiet = 300 * time.Millisecond

// stampEvery is how many datagrams pass between two looks at the clock.
const stampEvery = 64

// runReceiver opens the socket, announces it on out, and counts what arrives.
// A line on in tells how many datagrams were sent; when all have arrived, or
// nothing more does, it writes the result to out.
func runReceiver(spec receiverSpec, credits io.Writer, in io.Reader, out io.Writer) error {
	conn, err := spec.Options.listen()
	if err != nil {
		return err
	}
	defer closeQuietly(conn)
	before := usageNow()
	granted := conn.Granted().Read.Granted
	addr, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return fmt.Errorf("local address: %w", err)
	}
	reply := json.NewEncoder(out)
	if err := reply.Encode(receiverReady{Addr: addr, Granted: granted}); err != nil {
		return err
	}
	c := &counting{
		conn:   conn,
		ledger: ledger{run: spec.Run, segment: spec.Options.Segment},
		credit: creditWriter{
			w:     credits,
			every: uint64(max(spec.Options.window(granted)/4, 1)),
			write: uint64(spec.Options.perWrite()),
		},
	}
	go c.awaitTotal(in)
	if err := c.run(); err != nil {
		return err
	}
	r := c.result()
	r.side = sideOf(conn, before)
	return reply.Encode(r)
}

// counting is the receiver at work.
type counting struct {
	conn   *udp.Conn
	ledger ledger
	credit creditWriter

	first, last time.Time // of the clock looks around the data
	timed       uint64    // distinct datagrams up to last

	waited  bool   // a quiet time has begun
	hadThen uint64 // distinct datagrams when it did

	total    atomic.Int64 // datagrams sent, noTotal or orphaned
	totalErr error        // written before total becomes orphaned
}

const (
	noTotal  = 0  // the sender is still at it; a finished one has sent something
	orphaned = -1 // nobody will tell
)

// awaitTotal reads the number of datagrams sent and wakes the reader.
func (c *counting) awaitTotal(in io.Reader) {
	line, err := bufio.NewReader(in).ReadString('\n')
	n, parseErr := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err == nil {
		err = parseErr
	}
	if err == nil && n <= 0 {
		err = fmt.Errorf("%d datagrams sent", n)
	}
	if err != nil {
		c.totalErr = fmt.Errorf("waiting for the number of datagrams sent: %w", err)
		n = orphaned
	}
	c.total.Store(n)
	_ = c.conn.SetReadDeadline(time.Now()) // fails only on a closed socket, where nobody reads
}

func (c *counting) run() error {
	buf := make([]byte, 1<<16)
	for {
		n, _, _, _, err := c.conn.ReadMsgUDP(buf, nil)
		switch {
		case err == nil:
			c.take(buf[:n])
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		default:
			if done, err := c.pause(); done || err != nil {
				return err
			}
		}
	}
}

// take notes one datagram.
func (c *counting) take(d []byte) {
	if c.first.IsZero() {
		c.first = time.Now()
	}
	if c.ledger.add(d) != fresh {
		return
	}
	if c.ledger.distinct%stampEvery == 0 {
		c.look()
	}
	if c.credit.due(c.ledger.next) {
		c.credit.tell(c.ledger.next)
	}
	if total := c.total.Load(); total > 0 && c.ledger.distinct >= uint64(total) {
		c.look()
		_ = c.conn.SetReadDeadline(time.Now()) // as in awaitTotal
	}
}

func (c *counting) look() {
	c.last, c.timed = time.Now(), c.ledger.distinct
}

// pause decides at a deadline whether to go on: not once everything is here, nor
// when a whole quiet time brought nothing.
func (c *counting) pause() (done bool, err error) {
	total, have := c.total.Load(), c.ledger.distinct
	switch {
	case total == orphaned:
		return true, c.totalErr
	case have >= uint64(total), c.waited && have == c.hadThen:
		return true, nil
	}
	c.waited, c.hadThen = true, have
	return false, c.conn.SetReadDeadline(time.Now().Add(quiet))
}

func (c *counting) result() receiverResult {
	l := &c.ledger
	return receiverResult{
		Received: l.distinct, Duplicates: l.duplicates, Foreign: l.foreign, Corrupt: l.corrupt, Reordered: l.reordered,
		Timed: c.timed, Elapsed: c.last.Sub(c.first),
	}
}
