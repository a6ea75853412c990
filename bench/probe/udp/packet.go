package udpprobe

import "encoding/binary"

// A datagram is the run's number, its own number (both 8 bytes, big-endian),
// and filling. Datagrams with room for it end in their number once more, so
// that a wrong cut of a coalesced read shows.
const (
	headerLen  = 16
	trailerLen = 8
)

// stamp writes run and number into d.
func stamp(d []byte, run, number uint64) {
	binary.BigEndian.PutUint64(d, run)
	binary.BigEndian.PutUint64(d[8:], number)
	if len(d) >= headerLen+trailerLen {
		binary.BigEndian.PutUint64(d[len(d)-trailerLen:], number)
	}
}

// verdict is what a received datagram turned out to be.
type verdict uint8

const (
	fresh     verdict = iota // one of ours, seen for the first time
	duplicate                // one of ours, seen before
	foreign                  // not of this run
	corrupt                  // ours, with the wrong length or end
)

// ledger knows which datagrams of a run have arrived. Not for concurrent use.
type ledger struct {
	run     uint64
	segment int

	seen []uint64 // a bit for each number
	next uint64   // highest number seen + 1

	distinct, duplicates, foreign, corrupt, reordered uint64
}

// maxNumber bounds the ledger's memory (512 MiB) against nonsense numbers.
const maxNumber = 1 << 32

// add notes one datagram.
func (l *ledger) add(d []byte) verdict {
	if len(d) < headerLen || binary.BigEndian.Uint64(d) != l.run {
		l.foreign++
		return foreign
	}
	number := binary.BigEndian.Uint64(d[8:])
	if !l.intact(d, number) {
		l.corrupt++
		return corrupt
	}
	word, bit := number/64, uint64(1)<<(number%64)
	for word >= uint64(len(l.seen)) {
		l.seen = append(l.seen, make([]uint64, max(len(l.seen), 1024))...)
	}
	if l.seen[word]&bit != 0 {
		l.duplicates++
		return duplicate
	}
	l.seen[word] |= bit
	l.distinct++
	if number < l.next {
		l.reordered++
	} else {
		l.next = number + 1
	}
	return fresh
}

func (l *ledger) intact(d []byte, number uint64) bool {
	if len(d) != l.segment || number >= maxNumber {
		return false
	}
	return len(d) < headerLen+trailerLen || binary.BigEndian.Uint64(d[len(d)-trailerLen:]) == number
}
