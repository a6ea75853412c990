package transport

import (
	"runtime"
	"testing"
	"time"
)

// heap returns the bytes in use once they stand still.
func heap(t *testing.T) int64 {
	t.Helper()
	last := int64(-1)
	eventually(t, "the heap to stand still", func() bool {
		runtime.GC()
		runtime.GC() // pools keep what they have for one more cycle
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		now := int64(m.HeapAlloc)
		still := last >= 0 && max(now-last, last-now) < 64<<10
		last = now
		time.Sleep(20 * time.Millisecond)
		return still
	})
	return last
}

// pinned returns by how much the heap grows when a peer sends one frame on each of many streams that nobody reads.
func pinned(t *testing.T, streams, frame int) int64 {
	t.Helper()
	client, server := pair(t, listen(t, nil), dialer(t, nil))
	before := heap(t)
	for range streams {
		s, err := client.OpenUniStream(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write(make([]byte, frame)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "everything to arrive", func() bool {
		return server.Stats().BytesReceived >= uint64(streams*frame)
	})
	grown := heap(t) - before
	runtime.KeepAlive(server)
	return grown
}

// TestSmallFramesPinLittle: what a peer makes us hold is a small multiple of what it sent, even if it sends small
// frames that nobody reads. Each of them could sit in a buffer for a packet of the engine's full size.
func TestSmallFramesPinLittle(t *testing.T) {
	const streams, tiny, small = 2000, 100, 1000
	base := pinned(t, streams, tiny) // the streams themselves; such frames have buffers of their own size
	grown := pinned(t, streams, small) - base
	t.Logf("%d frames of %d bytes pin %d bytes more than frames of %d", streams, small, grown, tiny)
	if limit := int64(5 * streams * (small - tiny)); grown > limit {
		t.Errorf("%d bytes are pinned, more than %d", grown, limit)
	}
}
