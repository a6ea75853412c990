package udpprobe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// stallTimeout is how long a sender with a full window waits for news before it
// takes everything in flight for lost.
const stallTimeout = 100 * time.Millisecond

// creditWriter tells the sender how far the receiver has come: the number after
// the highest one that arrived. Datagrams lost in between are covered by it.
type creditWriter struct {
	w     io.Writer
	every uint64 // datagrams between two messages
	write uint64 // datagrams of one write of the sender
	told  uint64
}

// due reports whether there is enough news to tell. Writes longer than every
// may be waited for one by one, so their ends are news.
func (c *creditWriter) due(next uint64) bool {
	return next-c.told >= c.every || c.write > c.every && next%c.write == 0
}

// tell sends one message of 8 bytes. A sender that has ended is no error.
func (c *creditWriter) tell(next uint64) {
	c.told = next
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], next)
	_, _ = c.w.Write(b[:]) // the sender has ended, or its window will time out
}

// creditSource is the read end of the pipe.
type creditSource interface {
	io.Reader
	SetReadDeadline(time.Time) error
}

// window keeps a sender from overrunning the receiver. Not for concurrent use.
type window struct {
	credits creditSource
	size    uint64 // datagrams that may be in flight
	acked   uint64 // all below this number have arrived or are lost
	waits   uint64 // times the window was full
	stalls  uint64 // times nothing was heard for stallTimeout
	buf     [4096]byte
	partial int // bytes of an unfinished message at the start of buf
}

// admit waits until numbers up to and including last may be sent. More than the
// window at once is admitted when nothing else is in flight.
func (w *window) admit(first, last uint64) error {
	if w.fits(first, last) {
		return nil
	}
	w.waits++
	for !w.fits(first, last) {
		if err := w.credits.SetReadDeadline(time.Now().Add(stallTimeout)); err != nil {
			return fmt.Errorf("flow control: %w", err)
		}
		err := w.read()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			w.stalls++
			w.acked = first
			continue
		}
		if err != nil {
			return fmt.Errorf("flow control: the receiver has ended: %w", err)
		}
	}
	return nil
}

func (w *window) fits(first, last uint64) bool {
	return w.acked >= first || last-w.acked < w.size
}

// read takes all messages that are there; the last one counts.
func (w *window) read() error {
	n, err := w.credits.Read(w.buf[w.partial:])
	n += w.partial
	if whole := n &^ 7; whole >= 8 {
		w.acked = max(w.acked, binary.BigEndian.Uint64(w.buf[whole-8:]))
		w.partial = copy(w.buf[:], w.buf[whole:n])
		return nil
	}
	w.partial = n
	return err
}
