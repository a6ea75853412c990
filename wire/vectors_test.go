package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// vector is one file of testdata/vectors.
type vector struct {
	Name           string   `json:"name"`
	Kind           string   `json:"kind"`
	Flags          Flags    `json:"flags"`
	PayloadJSON    string   `json:"payload_json"`
	PayloadHex     string   `json:"payload_hex"`
	FrameHex       string   `json:"frame_hex"`
	RequestID      uint64   `json:"request_id"`
	AckMode        string   `json:"ack_mode"`
	KeyUTF8        *string  `json:"key_utf8"`
	TenantID       string   `json:"tenant_id"`
	Namespace      string   `json:"namespace"`
	Stream         string   `json:"stream"`
	PayloadsUTF8   []string `json:"payloads_utf8"`
	Status         string   `json:"status"`
	Message        *string  `json:"message"`
	SubscriptionID uint64   `json:"subscription_id"`
	BaseOffset     *uint64  `json:"base_offset"`
}

// rejectVector is one entry of extra/reject.json.
type rejectVector struct {
	Name     string `json:"name"`
	FrameHex string `json:"frame_hex"`
	Reject   string `json:"reject"`
	Where    string `json:"where"`
}

func (v vector) payloads() [][]byte {
	var list [][]byte
	for _, p := range v.PayloadsUTF8 {
		list = append(list, []byte(p))
	}
	return list
}

func (v vector) publishHeader(t testing.TB) PublishHeader {
	h := PublishHeader{TenantID: v.TenantID, Namespace: v.Namespace, Stream: v.Stream}
	if v.Flags.Has(FlagPublishAcked) {
		h.Acked, h.RequestID = true, v.RequestID
		switch v.AckMode {
		case "per_message":
			h.Ack = AckPerMessage
		case "per_batch":
			h.Ack = AckPerBatch
		default:
			t.Fatalf("vector %s: ack mode %q", v.Name, v.AckMode)
		}
	}
	if v.KeyUTF8 != nil {
		h.HasKey, h.Key = true, []byte(*v.KeyUTF8)
	}
	return h
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func readJSON(t testing.TB, path string, into any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// loadVectors returns all vectors that are to be accepted.
func loadVectors(t testing.TB) []vector {
	t.Helper()
	var list []vector
	for _, pattern := range []string{"testdata/vectors/*.json", "testdata/vectors/extra/*.json"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("no vectors at %s: %v", pattern, err)
		}
		for _, path := range paths {
			if filepath.Base(path) == "reject.json" {
				continue
			}
			var v vector
			readJSON(t, path, &v)
			list = append(list, v)
		}
	}
	return list
}

func loadRejects(t testing.TB) []rejectVector {
	t.Helper()
	var list []rejectVector
	readJSON(t, "testdata/vectors/extra/reject.json", &list)
	return list
}

func TestVectors(t *testing.T) {
	vectors := loadVectors(t)
	if len(vectors) != 13+29 {
		t.Errorf("%d vectors, want 42", len(vectors))
	}
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			raw := unhex(t, v.FrameHex)
			h, err := ParseHeader(raw, DefaultMaxFrameBytes)
			if err != nil {
				t.Fatal(err)
			}
			f := Frame{Flags: h.Flags, Raw: raw}
			if h.Flags != v.Flags || int(h.Length) != len(f.Payload()) {
				t.Fatalf("header %+v, want flags %#x and %d bytes", h, v.Flags, len(f.Payload()))
			}
			if !bytes.Equal(f.Payload(), unhex(t, v.PayloadHex)) {
				t.Fatal("frame_hex and payload_hex differ")
			}
			switch v.Kind {
			case "", "json_message":
				checkMessageVector(t, v, f)
			case "binary_publish_batch", "binary_acked_publish_batch", "binary_keyed_publish_batch":
				checkPublishVector(t, v, f)
			case "binary_publish_ack":
				checkAckVector(t, v, f)
			case "shared_event_batch", "event_batch":
				checkEventVector(t, v, f)
			default:
				t.Fatalf("unknown kind %q", v.Kind)
			}
		})
	}
}

func TestVectorHexFiles(t *testing.T) {
	paths, err := filepath.Glob("testdata/vectors/*.hex")
	if err != nil || len(paths) != 13 {
		t.Fatalf("%d hex files, want 13: %v", len(paths), err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var v vector
		readJSON(t, strings.TrimSuffix(path, ".hex")+".json", &v)
		if !bytes.Equal(unhex(t, string(text)), unhex(t, v.FrameHex)) {
			t.Errorf("%s differs from its JSON file", path)
		}
	}
}

func wantBytes(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s:\n got %x\nwant %x", what, got, want)
	}
}

func checkMessageVector(t *testing.T, v vector, f Frame) {
	if v.PayloadJSON != string(f.Payload()) {
		t.Fatal("payload_json and frame_hex differ")
	}
	m, err := ParseMessage(f.Payload())
	if err != nil {
		t.Fatal(err)
	}
	got, err := AppendMessageFrame([]byte("before"), m)
	if err != nil {
		t.Fatal(err)
	}
	wantBytes(t, "encoded", got, append([]byte("before"), f.Raw...))
}

func checkPublishVector(t *testing.T, v vector, f Frame) {
	b, err := ParsePublishBatch(f.Flags, f.Payload())
	if err != nil {
		t.Fatal(err)
	}
	h := v.publishHeader(t)
	if got := headerOf(b); !equalHeaders(got, h) {
		t.Errorf("parsed %+v, want %+v", got, h)
	}
	if got := collect(b.Items); !equalLists(got, v.payloads()) {
		t.Errorf("payloads %q, want %q", got, v.PayloadsUTF8)
	}
	got, err := AppendPublishBatch(nil, h, v.payloads())
	if err != nil {
		t.Fatal(err)
	}
	wantBytes(t, "encoded", got, f.Raw)
}

func checkAckVector(t *testing.T, v vector, f Frame) {
	ack, err := ParsePublishAck(f.Payload())
	if err != nil {
		t.Fatal(err)
	}
	want := PublishAck{RequestID: v.RequestID, Failed: v.Status == "error"}
	if v.Message != nil {
		want.Message = *v.Message
	}
	if ack != want {
		t.Errorf("parsed %+v, want %+v", ack, want)
	}
	wantBytes(t, "encoded", AppendPublishAck(nil, v.RequestID, want.Message), f.Raw)
}

func checkEventVector(t *testing.T, v vector, f Frame) {
	b, err := ParseEventBatch(f.Flags, f.Payload())
	if err != nil {
		t.Fatal(err)
	}
	if b.Shared != (v.Kind == "shared_event_batch") || b.SubscriptionID != v.SubscriptionID || b.HasBase != (v.BaseOffset != nil) {
		t.Errorf("parsed %+v", b)
	}
	if v.BaseOffset != nil && b.BaseOffset != *v.BaseOffset {
		t.Errorf("base offset %d, want %d", b.BaseOffset, *v.BaseOffset)
	}
	if got := collect(b.Items); !equalLists(got, v.payloads()) {
		t.Errorf("payloads %q, want %q", got, v.PayloadsUTF8)
	}
	var got []byte
	if b.Shared {
		got, err = AppendSharedEventBatch(nil, v.BaseOffset, v.payloads())
	} else {
		got, err = AppendEventBatch(nil, v.SubscriptionID, v.BaseOffset, v.payloads())
	}
	if err != nil {
		t.Fatal(err)
	}
	wantBytes(t, "encoded", got, f.Raw)
}

// parseFrame decodes one frame the way its first reader would and returns why it
// is refused, or nil.
func parseFrame(raw []byte) error {
	f, err := NewFrameReader(bytes.NewReader(raw), DefaultMaxFrameBytes).Next()
	if err != nil {
		return err
	}
	switch {
	case f.Flags.Unknown() != 0:
		return ErrUnsupportedFlags
	case f.Flags.Has(FlagPublishBatch):
		_, err = ParsePublishBatch(f.Flags, f.Payload())
	case f.Flags == FlagPublishAck:
		_, err = ParsePublishAck(f.Payload())
	case f.Flags.Has(FlagEventBatchShared), f.Flags.Has(FlagEventBatch):
		_, err = ParseEventBatch(f.Flags, f.Payload())
	default:
		_, err = ParseMessage(f.Payload())
	}
	return err
}

func TestRejectVectors(t *testing.T) {
	want := map[string]error{
		"bad_magic":                 ErrBadMagic,
		"bad_version":               ErrBadVersion,
		"unknown_flag_0x4000":       ErrUnsupportedFlags,
		"publish_count_bomb":        ErrMalformedBatch,
		"publish_truncated_payload": ErrMalformedBatch,
		"publish_bad_utf8_tenant":   ErrMalformedBatch,
		"acked_bad_ack_mode":        ErrMalformedPrefix,
		"acked_short_prefix":        ErrMalformedPrefix,
		"ack_bad_status":            ErrMalformedAck,
		"ack_short":                 ErrMalformedAck,
		"ack_truncated_message":     ErrMalformedAck,
		"shared_batch_count_bomb":   ErrMalformedEvents,
		"json_unknown_type":         ErrUnknownType,
		"json_unpadded_base64":      errWantBase64,
	}
	rejects := loadRejects(t)
	if len(rejects) != len(want) {
		t.Errorf("%d frames to refuse, want %d", len(rejects), len(want))
	}
	for _, v := range rejects {
		if err := parseFrame(unhex(t, v.FrameHex)); !errors.Is(err, want[v.Name]) || err == nil {
			t.Errorf("%s (%s): error %v, want %v", v.Name, v.Reject, err, want[v.Name])
		}
	}
}

// Helpers that other tests share.

func collect(it Items) [][]byte { return slices.Collect(it.All()) }

func equalLists(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }

func headerOf(b PublishBatch) PublishHeader {
	h := PublishHeader{
		TenantID: string(b.TenantID), Namespace: string(b.Namespace), Stream: string(b.Stream),
		Acked: b.Acked, RequestID: b.RequestID, HasKey: b.HasKey, Key: b.Key,
	}
	if b.Acked {
		h.Ack = b.Ack
	}
	return h
}

func equalHeaders(a, b PublishHeader) bool {
	same := bytes.Equal(a.Key, b.Key)
	a.Key, b.Key = nil, nil
	return same && a.TenantID == b.TenantID && a.Namespace == b.Namespace && a.Stream == b.Stream &&
		a.Acked == b.Acked && a.RequestID == b.RequestID && a.Ack == b.Ack && a.HasKey == b.HasKey
}
