package udp

import "testing"

func BenchmarkReceivePath(b *testing.B) {
	recv := &endless{data: make([]byte, 40*1452), control: join(info4Msg, tosMsg, cmsg(17, 104, u32(1452)))}
	c := fakeConn(b, Config{}, everything(), &kernel{}, nil)
	recv.slots = c.reader.slots
	c.reader.calls = recv
	ms := messages(8, 1452)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; {
		n, err := c.ReadBatch(ms, 0)
		if err != nil {
			b.Fatal(err)
		}
		i += n
	}
}

// endless is a kernel with one coalesced message a call.
type endless struct {
	slots   []incoming
	data    []byte
	control []byte
}

func (e *endless) receive() (n, calls, empty int, err error) {
	s := &e.slots[0]
	s.n, s.nn = len(e.data), copy(s.control, e.control)
	s.from = from4(1, 1)
	return 1, 1, 0, nil
}
