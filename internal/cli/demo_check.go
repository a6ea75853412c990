package cli

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Bounds of the recorded delays, in nanoseconds, and their precision.
const (
	maxDelay       = int64(10 * time.Minute)
	delayPrecision = 3 // significant decimal digits
)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, maxDelay, delayPrecision) }

// checker follows the messages that one subscriber gets. It fails at the first
// one that is not exactly what was sent.
type checker struct {
	files []string
	start time.Time

	file, chunk uint32 // expected next
	content     hash.Hash
	all         hash.Hash // over the path and digest of every file

	messages, bytes uint64
	delays          *hdrhistogram.Histogram
}

func newChecker(files []string, start time.Time) *checker {
	return &checker{files: files, start: start, content: sha256.New(), all: sha256.New(), delays: newHistogram()}
}

// done reports whether every file has arrived.
func (c *checker) done() bool { return int(c.file) == len(c.files) }

// take checks one message that arrived at the given time of the run.
func (c *checker) take(payload []byte, at time.Duration) error {
	m, err := parseDemoMessage(payload)
	if err != nil {
		return err
	}
	if c.done() {
		return errDemo("a message came after the last file: file %d", m.file)
	}
	if m.file != c.file || m.chunk != c.chunk {
		return errDemo("order: expected part %d of file %d (%s), got part %d of file %d (%s)",
			c.chunk, c.file, c.files[c.file], m.chunk, m.file, m.path)
	}
	if string(m.path) != c.files[c.file] {
		return errDemo("file %d: expected %s, got %s", c.file, c.files[c.file], m.path)
	}
	c.messages++
	c.bytes += uint64(len(m.content))
	if err := c.delays.RecordValue(max(1, int64(at-m.sent))); err != nil {
		return fmt.Errorf("delay of %v: %w", at-m.sent, err)
	}
	c.content.Write(m.content)
	if !m.last {
		c.chunk++
		return nil
	}
	digest := c.content.Sum(nil)
	if !bytes.Equal(digest, m.digest[:]) {
		return errDemo("SHA-256: %s arrived as %x, was sent as %x", m.path, digest, m.digest)
	}
	addFile(c.all, c.files[c.file], digest)
	c.content.Reset()
	c.file, c.chunk = c.file+1, 0
	return nil
}

// addFile extends the digest over all files.
func addFile(all hash.Hash, path string, digest []byte) {
	fmt.Fprintf(all, "%x %s\n", digest, path)
}
