package platform

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"slices"
	"testing"
)

func TestParseInts(t *testing.T) {
	got, err := parseInts("net.ipv4.udp_mem", "575799\t767734\t1151598")
	if err != nil || !slices.Equal(got, []int64{575799, 767734, 1151598}) {
		t.Errorf("udp_mem: %v, %v", got, err)
	}
	for _, bad := range []string{"", "  ", "1 x", "9223372036854775808"} {
		if _, err := parseInts("x", bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// TestFormatSysctl covers the raw values that macOS and FreeBSD return.
func TestFormatSysctl(t *testing.T) {
	u32 := binary.NativeEndian.AppendUint32(nil, 8388608)
	u64 := binary.NativeEndian.AppendUint64(nil, 8388608)
	minus := binary.NativeEndian.AppendUint32(nil, ^uint32(0))
	for _, c := range []struct {
		raw  []byte
		want string
	}{
		{u32, "8388608"},
		{u64, "8388608"},
		{minus, "-1"},
		{binary.NativeEndian.AppendUint32(nil, 0), "0"},
		{binary.NativeEndian.AppendUint32(nil, 9216), "9216"},
		{[]byte("Apple M2 Pro\x00"), "Apple M2 Pro"},
		{[]byte("15.1.0\x00"), "15.1.0"},
		{[]byte("abc\x00"), "abc"},
		{[]byte("\x00"), ""},
		{nil, ""},
	} {
		if got := formatSysctl(c.raw); got != c.want {
			t.Errorf("%q: %q, want %q", c.raw, got, c.want)
		}
	}
}

func TestBufferLimitNamesTheSetting(t *testing.T) {
	read := func(name string) (int64, error) {
		if name == "net.core.rmem_max" {
			return 212992, nil
		}
		return 0, fs.ErrNotExist
	}
	if l, err := bufferLimit("net.core.rmem_max", read); err != nil || l.Bytes != 212992 || l.Sysctl != "net.core.rmem_max" {
		t.Errorf("got %+v, %v", l, err)
	}
	// A network namespace may hide it; the operator still needs the name.
	l, err := bufferLimit("net.core.wmem_max", read)
	if !errors.Is(err, fs.ErrNotExist) || l.Sysctl != "net.core.wmem_max" {
		t.Errorf("hidden setting: %+v, %v", l, err)
	}
	if _, err := bufferLimit("", read); !errors.Is(err, ErrNotSupported) {
		t.Errorf("no setting known: %v", err)
	}
}

// TestParseUDPStat feeds macOS's counter structure.
func TestParseUDPStat(t *testing.T) {
	var raw []byte
	for _, v := range []uint32{1000, 1, 2, 3, 40, 0, 54, 7, 8, 900, 11, 12} {
		raw = binary.NativeEndian.AppendUint32(raw, v)
	}
	got, err := parseUDPStat(raw)
	want := UDPCounters{InDatagrams: 900, NoPorts: 40, InErrors: 60, OutDatagrams: 900, RcvbufErrors: 54, InCsumErrors: 2}
	if err != nil || got.V4 != want || got.V6 != (UDPCounters{}) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if _, err := parseUDPStat(bytes.Repeat([]byte{1}, 39)); err == nil {
		t.Error("a short structure was accepted")
	}
	wrapped := slices.Clone(raw)
	binary.NativeEndian.PutUint32(wrapped, 3) // the 32-bit total has wrapped
	if got, err := parseUDPStat(wrapped); err != nil || got.V4.InDatagrams != 0 {
		t.Errorf("wrapped total: %+v, %v", got, err)
	}
}
