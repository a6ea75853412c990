package wire

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// scanner is a pooled JSON reader over bytes that are already in memory. From a
// bytes.Buffer the decoder parses in place, so src is never written to or grown.
type scanner struct {
	src bytes.Buffer
	dec jsontext.Decoder
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// scanObject calls member with the raw name and value literals of every member
// of the one JSON object that b must be. Both are views of b.
func scanObject(b []byte, member func(name, value []byte) error) error {
	s := scanners.Get().(*scanner)
	defer func() {
		s.src = bytes.Buffer{} // do not keep b alive from the pool
		s.dec.Reset(&s.src)
		scanners.Put(s)
	}()
	s.src = *bytes.NewBuffer(b)
	// Names are checked here, for only the known ones may not repeat.
	s.dec.Reset(&s.src, jsontext.AllowDuplicateNames(true))
	if s.dec.PeekKind() != '{' {
		return errWantObject
	}
	if _, err := s.dec.ReadToken(); err != nil {
		return errInvalidJSON
	}
	for s.dec.PeekKind() != '}' {
		name, err := s.literal(b)
		if err != nil {
			return err
		}
		value, err := s.literal(b)
		if err != nil {
			return err
		}
		if err := member(name, value); err != nil {
			return err
		}
	}
	if _, err := s.dec.ReadToken(); err != nil {
		return errInvalidJSON
	}
	if _, err := s.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errTrailing
	}
	return nil
}

// literal reads the next value and returns it as a view of b.
func (s *scanner) literal(b []byte) ([]byte, error) {
	v, err := s.dec.ReadValue()
	if err != nil {
		return nil, errInvalidJSON
	}
	end := int(s.dec.InputOffset())
	return b[end-len(v) : end], nil
}

// decoder takes the members of one message apart. The first error sticks, with
// the field it is about; later results are then meaningless.
type decoder struct {
	raw   [fieldCount][]byte // JSON literals, nil when absent
	field field
	err   error
}

// scan collects the known members of the object b. On an error it also returns
// the name of the member at fault, if there is one.
func (d *decoder) scan(b []byte) (string, error) {
	at := ""
	err := scanObject(b, func(name, value []byte) error {
		f, known := lookupField(name)
		if !known {
			return nil
		}
		if d.raw[f] != nil {
			at = f.String()
			return errTwice
		}
		d.raw[f] = value
		return nil
	})
	return at, err
}

func lookupField(lit []byte) (field, bool) {
	if bytes.IndexByte(lit, '\\') < 0 {
		f, ok := fieldsByName[string(lit[1:len(lit)-1])]
		return f, ok
	}
	name, err := jsontext.AppendUnquote(nil, lit)
	f, ok := fieldsByName[string(name)]
	return f, ok && err == nil
}

func (d *decoder) fail(f field, err error) {
	if d.err == nil {
		d.field, d.err = f, err
	}
}

// required returns the literal of a member that must be there and not null.
func (d *decoder) required(f field) []byte {
	lit := d.raw[f]
	switch {
	case lit == nil:
		d.fail(f, errMissing)
	case lit[0] == 'n':
		d.fail(f, errNull)
	default:
		return lit
	}
	return nil
}

// present returns the literal of an optional member, nil when absent or null.
func (d *decoder) present(f field) []byte {
	if lit := d.raw[f]; lit != nil && lit[0] != 'n' {
		return lit
	}
	return nil
}

func (d *decoder) text(f field) string {
	lit := d.required(f)
	if lit == nil {
		return ""
	}
	b, err := unquote(lit)
	if err != nil {
		d.fail(f, err)
	}
	return string(b)
}

// unquote returns the content of a string literal, a view of it unless it has
// escapes.
func unquote(lit []byte) ([]byte, error) {
	if lit[0] != '"' {
		return nil, errWantText
	}
	if bytes.IndexByte(lit, '\\') < 0 {
		return lit[1 : len(lit)-1], nil
	}
	b, err := jsontext.AppendUnquote(nil, lit)
	if err != nil {
		return nil, errInvalidJSON
	}
	return b, nil
}

func (d *decoder) number(f field, bits int) uint64 {
	lit := d.required(f)
	if lit == nil {
		return 0
	}
	n, err := strconv.ParseUint(string(lit), 10, bits)
	if err != nil {
		d.fail(f, errWantNumber)
	}
	return n
}

func (d *decoder) optional(f field) *uint64 {
	if d.present(f) == nil {
		return nil
	}
	n := d.number(f, 64)
	return &n
}

func (d *decoder) optional16(f field) *uint16 {
	if d.present(f) == nil {
		return nil
	}
	n := uint16(d.number(f, 16))
	return &n
}

func (d *decoder) ack(f field) AckMode {
	if d.present(f) == nil {
		return AckUnset
	}
	switch d.text(f) {
	case "none":
		return AckNone
	case "per_message":
		return AckPerMessage
	case "per_batch":
		return AckPerBatch
	}
	d.fail(f, errNotAllowed)
	return AckUnset
}

func (d *decoder) reason(f field) CursorReason {
	switch r := CursorReason(d.text(f)); r {
	case CursorTooOld, CursorInFuture:
		return r
	}
	d.fail(f, errNotAllowed)
	return ""
}

func (d *decoder) start(f field) *Start {
	lit := d.present(f)
	if lit == nil {
		return nil
	}
	if lit[0] != '{' {
		switch d.text(f) {
		case "latest":
			return &Start{Kind: StartLatest}
		case "earliest":
			return &Start{Kind: StartEarliest}
		}
		d.fail(f, errNotAllowed)
		return nil
	}
	var inner decoder
	members := 0
	err := scanObject(lit, func(name, value []byte) error {
		members++
		if g, ok := lookupField(name); !ok || g != fieldOffset || members > 1 {
			return errNotAllowed
		}
		inner.raw[fieldOffset] = value
		return nil
	})
	n := inner.number(fieldOffset, 64)
	if err == nil {
		err = inner.err
	}
	if err != nil {
		d.fail(f, err)
		return nil
	}
	return &Start{Kind: StartOffset, Offset: n}
}

func (d *decoder) binary(f field) []byte {
	lit := d.required(f)
	if lit == nil {
		return nil
	}
	b, err := appendBase64([]byte{}, lit)
	if err != nil {
		d.fail(f, err)
	}
	return b
}

// binaryOrNull is binary for a member that must be there but may be null.
func (d *decoder) binaryOrNull(f field) []byte {
	if lit := d.raw[f]; lit != nil && lit[0] == 'n' {
		return nil
	}
	return d.binary(f)
}

// binaries decodes an array of base64 strings into one allocation.
func (d *decoder) binaries(f field) [][]byte {
	lit := d.required(f)
	if lit == nil {
		return nil
	}
	if lit[0] != '[' {
		d.fail(f, errWantList)
		return nil
	}
	// Two quotes an item, and none inside base64: exact for what will be accepted,
	// and no more than a third of the bytes for anything else.
	count := bytes.Count(lit, []byte{'"'}) / 2
	list := make([][]byte, 0, count)
	data := make([]byte, 0, base64.StdEncoding.DecodedLen(len(lit)))
	for rest := lit[1:]; ; {
		item, after := nextElement(rest)
		if item == nil {
			return list
		}
		from := len(data)
		var err error
		if data, err = appendBase64(data, item); err != nil {
			d.fail(f, err)
			return nil
		}
		list, rest = append(list, data[from:len(data):len(data)]), after
	}
}

// nextElement returns the literal of the next array element in b, which starts
// inside a valid array, and what follows it. A non-string element is returned as
// its first byte only. At the end of the array item is nil.
func nextElement(b []byte) (item, rest []byte) {
	i := 0
	for b[i] == ',' || b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r' {
		i++
	}
	b = b[i:]
	if b[0] == ']' {
		return nil, b
	}
	if b[0] != '"' {
		return b[:1], b[1:]
	}
	end := 1 + bytes.IndexByte(b[1:], '"')
	if bytes.IndexByte(b[1:end], '\\') >= 0 {
		for end = 1; b[end] != '"'; end++ {
			if b[end] == '\\' {
				end++
			}
		}
	}
	return b[:end+1], b[end+1:]
}

var strictBase64 = base64.StdEncoding.Strict()

// appendBase64 appends the decoded content of a string literal.
func appendBase64(dst, lit []byte) ([]byte, error) {
	text, err := unquote(lit)
	if err != nil {
		return dst, err
	}
	// Line breaks, which package base64 skips, can only come from escapes.
	if len(text)%4 != 0 || bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0 {
		return dst, errWantBase64
	}
	out, err := strictBase64.AppendDecode(dst, text)
	if err != nil {
		return dst, errWantBase64
	}
	return out, nil
}
