package client

import (
	"encoding/binary"
	"fmt"

	"felix/wire"
)

// eventFrame is the content of a frame of an event stream, in any of the layouts.
type eventFrame struct {
	items   []byte   // binary layouts: the items as they are on the wire
	list    [][]byte // JSON messages
	events  int
	bytes   int // of payload
	hasBase bool
	base    uint64 // offset of the first event
}

// parseEvents reads a frame from the stream of the subscription with the given id.
func parseEvents(f wire.Frame, id uint64) (eventFrame, error) {
	const op = "event stream"
	if f.Flags != 0 {
		b, err := wire.ParseEventBatch(f.Flags, f.Payload())
		if err != nil {
			return eventFrame{}, &ProtocolError{Op: op, Detail: "unreadable frame", Err: err}
		}
		if !b.Shared && b.SubscriptionID != id {
			return eventFrame{}, &ProtocolError{Op: op,
				Detail: fmt.Sprintf("events for subscription %d on the stream of subscription %d", b.SubscriptionID, id)}
		}
		return eventFrame{
			items: b.Items.Body(), events: b.Items.Len(), bytes: b.Items.Bytes(), hasBase: b.HasBase, base: b.BaseOffset,
		}, nil
	}
	m, err := wire.ParseMessage(f.Payload())
	if err != nil {
		return eventFrame{}, &ProtocolError{Op: op, Detail: "unreadable message", Err: err}
	}
	switch m := m.(type) {
	case *wire.Event:
		return listFrame([][]byte{m.Payload}, m.Offset), nil
	case *wire.EventBatchJSON:
		return listFrame(m.Payloads, m.BaseOffset), nil
	case *wire.Error:
		return eventFrame{}, refusal(m.Message)
	}
	return eventFrame{}, unexpected(op, m)
}

func listFrame(list [][]byte, base *uint64) eventFrame {
	f := eventFrame{list: list, events: len(list), hasBase: base != nil}
	for _, p := range list {
		f.bytes += len(p)
	}
	if base != nil {
		f.base = *base
	}
	return f
}

// cutItem splits the first payload off binary items.
func cutItem(items []byte) (payload, rest []byte) {
	end := wire.ItemOverhead + int(binary.BigEndian.Uint32(items))
	return items[wire.ItemOverhead:end:end], items[end:]
}

// first returns the first payload, if there is one.
func (f eventFrame) first() (payload []byte, ok bool) {
	switch {
	case f.events == 0:
		return nil, false
	case f.list != nil:
		return f.list[0], true
	}
	payload, _ = cutItem(f.items)
	return payload, true
}

// last returns the last payload, if there is one.
func (f eventFrame) last() (payload []byte, ok bool) {
	switch {
	case f.events == 0:
		return nil, false
	case f.list != nil:
		return f.list[f.events-1], true
	}
	for rest := f.items; len(rest) > 0; {
		payload, rest = cutItem(rest)
	}
	return payload, true
}
