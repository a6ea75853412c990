package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"felix/internal/testkit"
)

// demoFolder has files around the sizes at which they are cut up.
func demoFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, size := range map[string]int{
		"empty": 0, "one": 1, "sub/below": demoChunk - 1, "sub/exact": demoChunk, "sub/above": demoChunk + 1, "sub/deep/two": 2 * demoChunk, "zz/big": 5*demoChunk + 7,
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		content := bytes.Repeat([]byte(name+"\x00\xff"), size/len(name)+1)[:size]
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("one", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestDemo(t *testing.T) {
	program := filepath.Join(testkit.Programs(t), "felix")
	dir := demoFolder(t)
	out, err := exec.Command(program, "demo", "--dir", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.HasSuffix(string(out), "\ndemo: ok\n") || !strings.Contains(string(out), "files           7\n") {
		t.Errorf("output:\n%s", out)
	}
	out, err = exec.Command(program, "demo", "--dir", dir, "--subscribers", "1", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var r demoReport
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	wantBytes := uint64(1 + 3*demoChunk + 2*demoChunk + 5*demoChunk + 7)
	if !r.OK || r.Files != 7 || r.Subscribers != 1 || r.Bytes != wantBytes || r.Messages != 1+1+1+1+2+2+6 || r.LatencyUS == nil || r.LatencyUS.P50 <= 0 {
		t.Errorf("report %+v, want %d bytes in 14 messages", r, wantBytes)
	}
}

// The demo's broker is not the one that the user's environment describes.
func TestDemoBrokerHasItsOwnSettings(t *testing.T) {
	keep := []string{"PATH=/bin", "FELIX_UDP_GSO=off", "GODEBUG=x=1"}
	drop := []string{"FELIX_ADMIN_SOCKET=/run/felix/admin.sock", "FELIX_JWKS_FILE=/etc/felix/jwks.json", "FELIX_SUB_QUEUE_CAPACITY=1", "FELIX_BROKER_CONFIG=/etc/felix/felixd.yaml"}
	if got := brokerEnviron(slices.Concat(drop[:2], keep, drop[2:])); !slices.Equal(got, keep) {
		t.Errorf("environment = %q, want %q", got, keep)
	}
}

// TestDemoFailsWhenItsBrokerDies kills the broker in the middle.
func TestDemoFailsWhenItsBrokerDies(t *testing.T) {
	bin := t.TempDir()
	build := testkit.Programs(t)
	copyProgram(t, filepath.Join(build, "felix"), filepath.Join(bin, "felix"))
	// A felixd that serves for a moment and is then killed.
	script := "#!/bin/sh\n" + filepath.Join(build, "felixd") + ` "$@" & pid=$!; trap 'kill -9 $pid' TERM; sleep 0.2; kill -9 $pid; wait $pid; exit 1` + "\n"
	if err := os.WriteFile(filepath.Join(bin, "felixd"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(filepath.Join(bin, "felix"), "demo", "--dir", demoFolder(t))
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("exit: %v, want 1", err)
	}
	if !strings.Contains(stdout.String(), "demo: FAILED: ") || strings.Contains(stdout.String(), "demo: ok") {
		t.Errorf("stdout:\n%s", stdout.String())
	}
	if !strings.HasPrefix(stderr.String(), "felix: demo: felixd ended") || strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("stderr: %q", stderr.String())
	}
}

func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestCheckerNoticesEverything feeds the demo's checker what a bad broker might
// deliver.
func TestCheckerNoticesEverything(t *testing.T) {
	files := []string{"a", "b"}
	good := func(file, chunk uint32, last bool, path, content, whole string) []byte {
		m := demoMessage{file: file, chunk: chunk, last: last, path: []byte(path), content: []byte(content)}
		if last {
			m.digest = sha256.Sum256([]byte(whole))
		}
		return m.append(nil)
	}
	a0 := good(0, 0, false, "a", "one", "")
	a1 := good(0, 1, true, "a", "two", "onetwo")
	b0 := good(1, 0, true, "b", "", "")
	flipped := bytes.Clone(a1)
	flipped[len(flipped)-1] ^= 1
	wrongPath := good(0, 0, false, "b", "one", "")
	for _, c := range []struct {
		name     string
		messages [][]byte
		want     string // empty: no complaint
	}{
		{"all good", [][]byte{a0, a1, b0}, ""},
		{"lost part", [][]byte{a1}, "order: expected part 0 of file 0"},
		{"lost file", [][]byte{b0}, "order: expected part 0 of file 0"},
		{"doubled", [][]byte{a0, a0}, "order: expected part 1 of file 0"},
		{"swapped", [][]byte{a0, b0, a1}, "order: expected part 1 of file 0"},
		{"changed content", [][]byte{a0, flipped}, "SHA-256: a arrived as"},
		{"wrong name", [][]byte{wrongPath}, "file 0: expected a, got b"},
		{"too much", [][]byte{a0, a1, b0, b0}, "a message came after the last file"},
		{"too short", [][]byte{a0[:demoHeader-1]}, "malformed"},
		{"path cut off", [][]byte{a0[:demoHeader]}, "malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			check := newChecker(files, time.Now())
			var err error
			for _, m := range c.messages {
				if err = check.take(m, time.Second); err != nil {
					break
				}
			}
			switch {
			case c.want == "" && (err != nil || !check.done()):
				t.Errorf("good messages: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error = %v, want %q", err, c.want)
			}
		})
	}
}

func TestReportNoticesMissingMessages(t *testing.T) {
	sent := sentFiles{messages: 2, bytes: 6, digest: []byte("x")}
	check := newChecker([]string{"a"}, time.Now())
	check.messages, check.bytes = 1, 3
	var r demoReport
	if err := r.addTransfer(time.Second, &sent, []*checker{check}); err == nil || !strings.Contains(err.Error(), "subscriber 1: got 1 messages with 3 bytes, sent were 2 with 6") {
		t.Errorf("addTransfer = %v", err)
	}
}
