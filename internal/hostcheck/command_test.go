package hostcheck

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

func run(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	cmd := Command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// TestCheckOnThisHost: both forms say the same, and the error follows the
// severity.
func TestCheckOnThisHost(t *testing.T) {
	text, tableErr := run(t, "check")
	t.Log(text)
	out, err := run(t, "check", "--json")
	var r Report
	if e := json.Unmarshal([]byte(out), &r); e != nil {
		t.Fatalf("not one JSON object: %v\n%s", e, out)
	}
	var bad *DeficientError
	if got := errors.As(err, &bad); got != (r.Severity >= CostsThroughput) {
		t.Errorf("severity %v, error %v", r.Severity, err)
	}
	if (tableErr == nil) != (err == nil) {
		t.Errorf("table ended with %v, JSON with %v", tableErr, err)
	}
	for _, id := range []string{"read_buffer", "write_buffer", "loopback_packets", "segmented_sends", "coalesced_receives", "loopback_mtu", "path_mtu", "ipv6", "open_files", "processors"} {
		f, ok := r.Find(id)
		if !ok || f.Evidence == "" {
			t.Errorf("%s: no finding with evidence: %+v", id, f)
		}
		if !strings.Contains(text, f.Title) {
			t.Errorf("the table lacks %q", f.Title)
		}
	}
	if r.Facts.Socket == nil || r.Facts.Socket.Granted.Read.Granted == 0 {
		t.Errorf("the granted buffers were not measured: %+v", r.Facts.Socket)
	}
}

func TestUnknownArgumentsAreRefused(t *testing.T) {
	for _, args := range [][]string{{"check", "more"}, {"check", "--wrong"}} {
		if out, err := run(t, args...); err == nil {
			t.Errorf("%v was accepted: %s", args, out)
		}
	}
}
