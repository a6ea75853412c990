package udp

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
)

// fakeOptions are the options of a fake socket.
type fakeOptions struct {
	v     map[option]int
	limit int                       // of both buffers
	hard  bool                      // beyond the limit is an error, as on macOS; else it is cut down
	twice bool                      // reads back doubled
	right bool                      // the forced options work
	fail  map[option]error          // other failures
	log   []string                  // what was set
	drops func() (n uint32, b bool) // may be nil
}

func (f *fakeOptions) set(o option, v int) error {
	f.log = append(f.log, fmt.Sprintf("%d=%d", o, v))
	if err := f.fail[o]; err != nil {
		return err
	}
	target := o
	switch o {
	case optForceReadBuffer, optForceWriteBuffer:
		if !f.right {
			return syscall.EPERM
		}
		target = o - optForceReadBuffer + optReadBuffer
	case optReadBuffer, optWriteBuffer:
		if v > f.limit {
			if f.hard {
				return syscall.ENOBUFS
			}
			v = f.limit
		}
	}
	if f.v == nil {
		f.v = make(map[option]int)
	}
	f.v[target] = v
	return nil
}

func (f *fakeOptions) get(o option) (int, error) {
	if err := f.fail[o]; err != nil {
		return 0, err
	}
	if f.twice && (o == optReadBuffer || o == optWriteBuffer) {
		return 2 * f.v[o], nil
	}
	return f.v[o], nil
}

func (f *fakeOptions) dropped() (uint32, bool) {
	if f.drops == nil {
		return 0, false
	}
	return f.drops()
}

func (f *fakeOptions) wasSet(o option) bool {
	for _, s := range f.log {
		if strings.HasPrefix(s, fmt.Sprintf("%d=", o)) {
			return true
		}
	}
	return false
}

func sysctlOf(m map[string]int64) func(string) (int64, error) {
	return func(name string) (int64, error) {
		if v, ok := m[name]; ok {
			return v, nil
		}
		return 0, fs.ErrNotExist
	}
}

// Linux cuts a request down to the host's limit without a word and reports twice
// what it granted.
func TestBuffersCutDownByTheHost(t *testing.T) {
	opts := &fakeOptions{limit: 212992, twice: true}
	b := linuxPolicy.setBuffers(opts, Config{}, sysctlOf(map[string]int64{
		"net.core.rmem_max": 212992, "net.core.wmem_max": 212992,
	}))
	want := Buffers{
		Read:  Grant{Asked: 8 << 20, Granted: 212992, Limit: "net.core.rmem_max", LimitBytes: 212992},
		Write: Grant{Asked: 8 << 20, Granted: 212992, Limit: "net.core.wmem_max", LimitBytes: 212992},
	}
	if b != want {
		t.Errorf("%+v", b)
	}
	// In a namespace that does not show the setting the figure is unknown.
	b = linuxPolicy.setBuffers(opts, Config{}, sysctlOf(nil))
	if b.Read.Granted != 212992 || b.Read.Limit == "" || b.Read.LimitBytes != 0 {
		t.Errorf("%+v", b.Read)
	}
}

// With CAP_NET_ADMIN the forced option grants everything.
func TestBuffersForced(t *testing.T) {
	opts := &fakeOptions{limit: 212992, twice: true, right: true}
	b := linuxPolicy.setBuffers(opts, Config{WriteBuffer: 100000}, sysctlOf(nil))
	want := Buffers{
		Read:  Grant{Asked: 8 << 20, Granted: 8 << 20, Forced: true},
		Write: Grant{Asked: 100000, Granted: 100000},
	}
	if b != want {
		t.Errorf("%+v", b)
	}
}

// Where a request beyond the limit is refused, it is halved until accepted, and
// not below 64 KiB.
func TestBuffersHalvedUntilAccepted(t *testing.T) {
	for _, x := range []struct{ limit, want int }{{6 << 20, 4 << 20}, {300 << 10, 256 << 10}, {64 << 10, 64 << 10}, {10 << 10, 0}} {
		opts := &fakeOptions{limit: x.limit, hard: true}
		b := plainPolicy.setBuffers(opts, Config{}, sysctlOf(map[string]int64{"kern.ipc.maxsockbuf": int64(x.limit)}))
		if b.Read.Granted != x.want || b.Read.Limit != "kern.ipc.maxsockbuf" || b.Read.LimitBytes != x.limit {
			t.Errorf("limit %d: %+v", x.limit, b.Read)
		}
		for _, s := range opts.log {
			var o, v int
			if fmt.Sscanf(s, "%d=%d", &o, &v); v < MinBuffer {
				t.Errorf("limit %d: asked for %d bytes", x.limit, v)
			}
		}
	}
}

// macOS answers "would block" for ever to a datagram just under the size of the
// send buffer: the buffer holds the largest datagram whatever was configured.
func TestDarwinSendBufferHoldsTheLargestDatagram(t *testing.T) {
	opts := &fakeOptions{limit: 6 << 20, hard: true}
	b := darwinPolicy.setBuffers(opts, Config{WriteBuffer: 8 << 10, ReadBuffer: 8 << 10}, sysctlOf(nil))
	if b.Write.Granted < 65535+controlRoom {
		t.Errorf("send buffer of %d bytes", b.Write.Granted)
	}
	if b.Read.Granted != 8<<10 {
		t.Errorf("receive buffer of %d bytes", b.Read.Granted)
	}
}

// One message per process, with everything in it.
func TestBuffersNoticeOncePerProcess(t *testing.T) {
	was := buffersNoticed.Swap(false)
	defer buffersNoticed.Store(was)
	var got []Notice
	cfg := Config{Notice: func(n Notice) { got = append(got, n) }}
	cut := Buffers{
		Read:  Grant{Asked: 8 << 20, Granted: 212992, Limit: "net.core.rmem_max", LimitBytes: 212992},
		Write: Grant{Asked: 8 << 20, Granted: 8 << 20},
	}
	cfg.noticeBuffers(Buffers{})
	(&Config{}).noticeBuffers(cut) // nobody listens: not used up
	for range 3 {
		cfg.noticeBuffers(cut)
	}
	if len(got) != 1 || got[0].Kind != BuffersLimited || got[0].Buffers != cut {
		t.Fatalf("%+v", got)
	}
	for _, part := range []string{"8192 KiB", "208 KiB", "net.core.rmem_max=212992", "host"} {
		if !strings.Contains(got[0].Text, part) {
			t.Errorf("%q lacks %q", got[0].Text, part)
		}
	}
	if strings.Contains(got[0].Text, "send buffer") {
		t.Errorf("%q speaks of the send buffer, which is as asked for", got[0].Text)
	}
}

// Sizes that other code sets on the descriptor do not last.
func TestForeignBufferSizesAreUndone(t *testing.T) {
	for _, right := range []bool{false, true} {
		opts := &fakeOptions{limit: 212992, twice: true, right: right}
		b := linuxPolicy.setBuffers(opts, Config{ReadBuffer: 100000}, sysctlOf(nil))
		before := len(opts.log)
		linuxPolicy.restore(opts, b)
		if len(opts.log) != before {
			t.Errorf("nothing had changed, but %v", opts.log[before:])
		}
		opts.v[optReadBuffer], opts.v[optWriteBuffer] = 7<<20, 5
		linuxPolicy.restore(opts, b)
		if got := opts.v[optReadBuffer]; got != b.Read.Granted {
			t.Errorf("receive buffer %d, granted %d", got, b.Read.Granted)
		}
		if got := opts.v[optWriteBuffer]; got != b.Write.Granted {
			t.Errorf("send buffer %d, granted %d", got, b.Write.Granted)
		}
	}
}

func TestNegativeBuffersAreRefused(t *testing.T) {
	for _, c := range []Config{{ReadBuffer: -1}, {WriteBuffer: -5}} {
		if _, err := Listen("udp", "127.0.0.1:0", c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
	var sw *SwitchError
	if _, err := Listen("udp", "127.0.0.1:0", Config{GSO: 7}); err == nil || errors.As(err, &sw) {
		t.Errorf("a switch of 7: %v", err)
	}
}
