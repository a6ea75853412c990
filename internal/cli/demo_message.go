package cli

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"
)

const (
	// demoChunk is the most content of a file that one message carries; larger
	// files are sent in several, so that no frame limit is met.
	demoChunk = 512 << 10
	// demoHeader is the fixed part of a message.
	demoHeader = 4 + 4 + 1 + 8 + sha256.Size + 2
	// maxDemoPath is what the u16 length of the path can say.
	maxDemoPath = 65535
)

// demoMessage is one message of the demo. On the wire, all big-endian:
//
//	u32 file, u32 chunk, u8 last, u64 sent (ns since the start of the run),
//	32 bytes SHA-256 of the whole file (zero unless last), u16 n, n bytes path, content
type demoMessage struct {
	file, chunk uint32
	last        bool
	sent        time.Duration
	digest      [sha256.Size]byte
	path        []byte // a view in a decoded message
	content     []byte // the same
}

func (m *demoMessage) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, m.file)
	dst = binary.BigEndian.AppendUint32(dst, m.chunk)
	if m.last {
		dst = append(dst, 1)
	} else {
		dst = append(dst, 0)
	}
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.sent))
	dst = append(dst, m.digest[:]...)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(m.path)))
	dst = append(dst, m.path...)
	return append(dst, m.content...)
}

var errDemoMessage = errors.New("a message is malformed")

func parseDemoMessage(b []byte) (m demoMessage, err error) {
	if len(b) < demoHeader {
		return m, errDemoMessage
	}
	m.file = binary.BigEndian.Uint32(b)
	m.chunk = binary.BigEndian.Uint32(b[4:])
	m.last = b[8] == 1
	m.sent = time.Duration(binary.BigEndian.Uint64(b[9:]))
	copy(m.digest[:], b[17:])
	n := int(binary.BigEndian.Uint16(b[demoHeader-2:]))
	b = b[demoHeader:]
	if len(b) < n {
		return m, errDemoMessage
	}
	m.path, m.content = b[:n], b[n:]
	return m, nil
}
