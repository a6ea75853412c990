package hostcheck

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"felix/platform"
	"felix/udp"
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

// TestEnvironmentApplies: the check opens its socket as the daemon would.
func TestEnvironmentApplies(t *testing.T) {
	t.Setenv("FELIX_UDP_RECV_BUFFER", "131072")
	t.Setenv("FELIX_UDP_SEND_BUFFER", "")
	t.Setenv("FELIX_UDP_GSO", "off")
	r := Run(t.Context())
	if r.Facts.Socket == nil {
		t.Fatalf("no socket: %v", r.Facts.Unknown)
	}
	if g := r.Facts.Socket.Granted; g.Read.Asked != 131072 || g.Write.Asked != udp.DefaultBuffer {
		t.Errorf("asked for %d and %d bytes", g.Read.Asked, g.Write.Asked)
	}
	if f, _ := r.Find("segmented_sends"); platform.UDPSegment().Supported() && f.Severity != CostsThroughput {
		t.Errorf("segmentation is switched off: %+v", f)
	}
	for name, value := range map[string]string{"FELIX_UDP_RECV_BUFFER": "lots", "FELIX_UDP_SEND_BUFFER": "-1", "FELIX_UDP_GRO": "maybe"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			if f, _ := Run(t.Context()).Find("socket"); f.Severity != Unsafe || !strings.Contains(f.Evidence, name) {
				t.Errorf("%s=%s: %+v", name, value, f)
			}
		})
	}
}
