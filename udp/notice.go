package udp

import (
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
)

// NoticeKind tells notices apart.
type NoticeKind uint8

// The kinds of notices.
const (
	// BuffersLimited: the host grants less socket buffer than asked for. It
	// comes once per process, for every further socket would say the same.
	BuffersLimited NoticeKind = iota
	// SegmentationRefused: a segmented send was refused and was repeated in
	// smaller messages. It comes once per socket; counters tell how often.
	SegmentationRefused
	// OptionRefused: the host refuses an optional socket option. It comes at
	// most once per socket and option.
	OptionRefused
)

// String returns a name in snake_case.
func (k NoticeKind) String() string {
	return [...]string{"buffers_limited", "segmentation_refused", "option_refused"}[k]
}

// Notice is something that an operator should know about. The caller logs it.
type Notice struct {
	Kind    NoticeKind
	Text    string // a sentence with the figures and what to do
	Buffers Buffers
	Peer    netip.Addr
	Segment int // size of the refused segments in bytes
	Errno   syscall.Errno
}

// buffersNoticed makes the notice on buffers come once per process.
var buffersNoticed atomic.Bool

func (c *Config) noticeBuffers(b Buffers) {
	if c.Notice == nil || !b.limited() || !buffersNoticed.CompareAndSwap(false, true) {
		return
	}
	var parts []string
	for _, x := range [...]struct {
		what string
		g    Grant
	}{{"receive", b.Read}, {"send", b.Write}} {
		if x.g.Limit != "" {
			parts = append(parts, fmt.Sprintf("%s buffer: asked for %d KiB, granted %d KiB, limited by %s%s",
				x.what, x.g.Asked>>10, x.g.Granted>>10, x.g.Limit, limitText(x.g.LimitBytes)))
		}
	}
	c.Notice(Notice{
		Kind:    BuffersLimited,
		Text:    strings.Join(parts, "; ") + "; these are settings of the host, raise them there, not in a container",
		Buffers: b,
	})
}

func limitText(bytes int) string {
	if bytes == 0 {
		return " (not readable here)"
	}
	return fmt.Sprintf("=%d", bytes)
}

func segmentationNotice(to netip.Addr, segment int, errno syscall.Errno) Notice {
	return Notice{
		Kind: SegmentationRefused,
		Text: fmt.Sprintf("the kernel refused a send to %v in segments of %d bytes (%v); "+
			"the data was sent in smaller messages and that destination is limited for a while", to, segment, errno),
		Peer: to, Segment: segment, Errno: errno,
	}
}

func (c *Config) noticeOption(what string, err error) {
	if c.Notice != nil {
		c.Notice(Notice{Kind: OptionRefused, Text: what + ": " + err.Error(), Errno: errnoOf(err)})
	}
}
