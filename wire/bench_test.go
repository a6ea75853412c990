package wire

import (
	"bytes"
	"fmt"
	"testing"
)

var benchHeader = PublishHeader{TenantID: "t1", Namespace: "default", Stream: "bench", Acked: true, RequestID: 7, Ack: AckPerBatch}

// benchCases runs f for every payload size and batch size. f returns the number
// of messages an iteration handles.
func benchCases(b *testing.B, f func(b *testing.B, payloads [][]byte) int) {
	for _, size := range []int{256, 1 << 10, 4 << 10} {
		for _, batch := range []int{1, 64} {
			payloads := make([][]byte, batch)
			for i := range payloads {
				payloads[i] = bytes.Repeat([]byte{byte(i)}, size)
			}
			b.Run(fmt.Sprintf("size=%d/batch=%d", size, batch), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(size * batch))
				messages := f(b, payloads)
				b.ReportMetric(float64(messages)*float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
			})
		}
	}
}

func benchFrame(b *testing.B, payloads [][]byte) Frame {
	raw, err := AppendPublishBatch(nil, benchHeader, payloads)
	if err != nil {
		b.Fatal(err)
	}
	return Frame{Flags: benchHeader.Flags(), Raw: raw}
}

func BenchmarkParsePublishBatch(b *testing.B) {
	benchCases(b, func(b *testing.B, payloads [][]byte) int {
		fr := benchFrame(b, payloads)
		for b.Loop() {
			if _, err := ParsePublishBatch(fr.Flags, fr.Payload()); err != nil {
				b.Fatal(err)
			}
		}
		return len(payloads)
	})
}

// BenchmarkParseEventBatch includes a walk over the items, as a subscriber does.
func BenchmarkParseEventBatch(b *testing.B) {
	benchCases(b, func(b *testing.B, payloads [][]byte) int {
		raw, err := AppendSharedEventBatch(nil, nil, payloads)
		if err != nil {
			b.Fatal(err)
		}
		total := 0
		for b.Loop() {
			ev, err := ParseEventBatch(FlagEventBatchShared, raw[HeaderLen:])
			if err != nil {
				b.Fatal(err)
			}
			for p := range ev.Items.All() {
				total += len(p)
			}
		}
		if total == 0 {
			b.Fatal("no items")
		}
		return len(payloads)
	})
}

// BenchmarkSharedEventInPlace parses and converts. The converted frame is put
// back to what it was by its 12 to 36 bytes of header and prefix.
func BenchmarkSharedEventInPlace(b *testing.B) {
	benchCases(b, func(b *testing.B, payloads [][]byte) int {
		fr := benchFrame(b, payloads)
		prefix := bytes.Clone(fr.Raw[:HeaderLen+benchHeader.PayloadLen(0, 0)])
		for b.Loop() {
			batch, err := ParsePublishBatch(fr.Flags, fr.Payload())
			if err != nil {
				b.Fatal(err)
			}
			SharedEventInPlace(fr, batch)
			copy(fr.Raw, prefix[:len(prefix)-countLen])
		}
		return len(payloads)
	})
}

// loopReader repeats data for ever, at most chunk bytes a read, as a QUIC stream
// hands out packets.
type loopReader struct {
	data  []byte
	at    int
	chunk int
}

func (r *loopReader) Read(p []byte) (int, error) {
	n := copy(p[:min(len(p), r.chunk)], r.data[r.at:])
	r.at = (r.at + n) % len(r.data)
	return n, nil
}

func BenchmarkFrameReader(b *testing.B) {
	benchCases(b, func(b *testing.B, payloads [][]byte) int {
		r := NewFrameReader(&loopReader{data: benchFrame(b, payloads).Raw, chunk: 8 << 10}, DefaultMaxFrameBytes)
		for b.Loop() {
			if _, err := r.Next(); err != nil {
				b.Fatal(err)
			}
		}
		return len(payloads)
	})
}

// BenchmarkIngress is what a broker does with a published frame: read, parse,
// convert in place.
func BenchmarkIngress(b *testing.B) {
	benchCases(b, func(b *testing.B, payloads [][]byte) int {
		r := NewFrameReader(&loopReader{data: benchFrame(b, payloads).Raw, chunk: 8 << 10}, DefaultMaxFrameBytes)
		for b.Loop() {
			fr, err := r.Next()
			if err != nil {
				b.Fatal(err)
			}
			batch, err := ParsePublishBatch(fr.Flags, fr.Payload())
			if err != nil {
				b.Fatal(err)
			}
			SharedEventInPlace(fr, batch)
		}
		return len(payloads)
	})
}

func BenchmarkAppendPublishBatch(b *testing.B) {
	benchCases(b, func(b *testing.B, payloads [][]byte) int {
		buf := benchFrame(b, payloads).Raw
		for b.Loop() {
			if _, err := AppendPublishBatch(buf[:0], benchHeader, payloads); err != nil {
				b.Fatal(err)
			}
		}
		return len(payloads)
	})
}

func BenchmarkSplitItems(b *testing.B) {
	benchCases(b, func(b *testing.B, payloads [][]byte) int {
		it, err := parseItems(appendItems(nil, payloads))
		if err != nil {
			b.Fatal(err)
		}
		var buf []byte
		for b.Loop() {
			for run := range SplitItems(it, 16, 64<<10) {
				buf = AppendSharedEventPrefix(buf[:0], nil, run)
			}
		}
		return len(payloads)
	})
}

func BenchmarkParseMessagePublish(b *testing.B) {
	benchCases(b, func(b *testing.B, payloads [][]byte) int {
		var m Message = &Publish{TenantID: "t1", Namespace: "default", Stream: "bench", Payload: payloads[0]}
		if len(payloads) > 1 {
			m = &PublishBatchJSON{TenantID: "t1", Namespace: "default", Stream: "bench", Payloads: payloads}
		}
		text, err := AppendMessage(nil, m)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := ParseMessage(text); err != nil {
				b.Fatal(err)
			}
		}
		return len(payloads)
	})
}

func BenchmarkMessagePublishOK(b *testing.B) {
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf, _ = AppendMessageFrame(buf[:0], &PublishOK{RequestID: 123456})
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		text, err := AppendMessage(nil, &PublishOK{RequestID: 123456})
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := ParseMessage(text); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkPublishAck(b *testing.B) {
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf = AppendPublishAck(buf[:0], 7, "")
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		raw := AppendPublishAck(nil, 7, "")
		for b.Loop() {
			if _, err := ParsePublishAck(raw[HeaderLen:]); err != nil {
				b.Fatal(err)
			}
		}
	})
}
