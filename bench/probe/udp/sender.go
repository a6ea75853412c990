package udpprobe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"felix/udp"
)

// senderSpec is what the sending process is told.
type senderSpec struct {
	Options Options        `json:"options"`
	Run     uint64         `json:"run"`
	To      netip.AddrPort `json:"to"`
	Window  int            `json:"window"`
}

// senderResult is what it reports.
type senderResult struct {
	Offered uint64        `json:"offered"` // datagrams handed to the socket
	Elapsed time.Duration `json:"elapsed_ns"`
	Waits   uint64        `json:"window_waits"`
	Stalls  uint64        `json:"window_stalls"`
	side
}

// hopeless is how many writes in a row may leave nothing before the sender
// gives up.
const hopeless = 1000

// runSender sends for the duration and writes its result as JSON to out.
func runSender(spec senderSpec, credits creditSource, out io.Writer) error {
	conn, err := spec.Options.listen()
	if err != nil {
		return err
	}
	defer closeQuietly(conn)
	before := usageNow()
	b := newBlast(spec)
	r, err := b.run(conn, &window{credits: credits, size: uint64(spec.Window)})
	if err != nil {
		return err
	}
	r.side = sideOf(conn, before)
	return json.NewEncoder(out).Encode(r)
}

// blast is the memory of one write, filled anew for each.
type blast struct {
	spec      senderSpec
	datagrams [][]byte
}

func newBlast(spec senderSpec) *blast {
	n, size := spec.Options.perWrite(), spec.Options.Segment
	arena := make([]byte, n*size)
	b := &blast{spec: spec, datagrams: make([][]byte, n)}
	for i := range b.datagrams {
		b.datagrams[i] = arena[i*size : (i+1)*size : (i+1)*size]
	}
	return b
}

// run looks at the clock once a write.
func (b *blast) run(conn *udp.Conn, w *window) (senderResult, error) {
	var number uint64
	n := uint64(len(b.datagrams))
	failed := 0
	start := time.Now()
	for time.Since(start) < b.spec.Options.Duration {
		if err := w.admit(number, number+n-1); err != nil {
			return senderResult{}, err
		}
		for i, d := range b.datagrams {
			stamp(d, b.spec.Run, number+uint64(i))
		}
		accepted, err := conn.WriteDatagrams(b.datagrams, nil, b.spec.To)
		number += n
		if accepted > 0 {
			failed = 0
			continue
		}
		if failed++; failed >= hopeless {
			return senderResult{}, fmt.Errorf("the last %d writes left nothing: %w", hopeless, errors.Join(err, errNothingLeft))
		}
	}
	return senderResult{Offered: number, Elapsed: time.Since(start), Waits: w.waits, Stalls: w.stalls}, nil
}

var errNothingLeft = errors.New("the kernel refuses every datagram")
