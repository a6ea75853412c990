package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"felix/bench/probe"
	"felix/broker/auth"
	"felix/daemon"
	"felix/internal/testkit"
)

func TestUsageErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"publish"}, `unknown command "publish" for "felix"`},
		{[]string{"pub"}, "requires at least 1 arg(s)"},
		{[]string{"pub", "s", "--batch", "0"}, "--batch 0: want 1 or more"},
		{[]string{"pub", "s", "--batch", "x"}, `invalid argument "x" for "--batch" flag`},
		{[]string{"pub", "s", "--ack", "maybe"}, "--ack maybe: want none, message or batch"},
		{[]string{"sub", "s", "--sideways"}, "unknown flag: --sideways"},
		{[]string{"sub", "s", "--from", "yesterday"}, "--from yesterday: want latest, earliest or an offset"},
		{[]string{"sub", "s", "--raw", "--json"}, "--raw does not go with --json"},
		{[]string{"cache"}, "felix cache: command missing"},
		{[]string{"cache", "fetch"}, `felix cache: unknown command "fetch"`},
		{[]string{"cache", "put", "c", "k", "--ttl", "-1s"}, "--ttl -1s: want 0 or more"},
		{[]string{"host"}, "felix host: command missing"},
		{[]string{"probe", "sonar"}, `felix probe: unknown command "sonar"`},
		{[]string{"token", "issue", "--ttl", "1ms"}, "--ttl 1ms: want 1s or more"},
		{[]string{"demo", "--subscribers", "0"}, "--subscribers 0: want 1 to 100"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			r := felix(t, t.TempDir(), "", c.args...)
			r.fails(t, 2, c.want)
			if r.stdout != "" {
				t.Errorf("stdout %q", r.stdout)
			}
		})
	}
}

func TestErrorsWithoutABroker(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"sub", "s"}, "no broker found in " + dir + " (start felixd --dev, or name one with --addr"},
		{[]string{"stream", "list"}, "stream list: no broker answers on " + filepath.Join(dir, "admin.sock") + " (start felixd"},
		{[]string{"--addr", "127.0.0.1:1", "sub", "s"}, "no access token (give --token-file"},
		{[]string{"--addr", "127.0.0.1:1", "--token-file", "/does/not/exist", "sub", "s"}, "access token: open /does/not/exist"},
		{[]string{"--addr", "127.0.0.1:1", "--token", "x", "sub", "s"}, "connect to 127.0.0.1:1: "},
		{[]string{"token", "issue"}, "token issue: no signing key at " + filepath.Join(dir, "signing-key.json")},
		{[]string{"token", "inspect", "nonsense"}, "it is neither a token nor the name of a file with one"},
		{[]string{"demo", "--dir", "/does/not/exist"}, "demo: lstat /does/not/exist: no such file or directory"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) { felix(t, dir, "", c.args...).fails(t, 1, c.want) })
	}
	t.Run("demo of an empty folder", func(t *testing.T) {
		felix(t, dir, "", "demo", "--dir", t.TempDir()).fails(t, 1, "demo: no regular files in ")
	})
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
	}{
		{nil, 0}, {errors.New("x"), 1}, {usagef("x"), 2}, {fmt.Errorf("probe: %w", probe.Invalid("too small")), 3},
		{errQuiet, 0}, {&interruptedError{2}, 130}, {errors.Join(errors.New("x"), usagef("y")), 2},
	} {
		if got := exitCode(c.err); got != c.code {
			t.Errorf("exit code of %v = %d, want %d", c.err, got, c.code)
		}
	}
}

func TestErrorMessageIsOneLine(t *testing.T) {
	err := fmt.Errorf("pub s: %w", fmt.Errorf("felix: broker: %w", errors.New("a\nb")))
	if got, want := message(err), "felix: pub s: broker: a b"; got != want {
		t.Errorf("message = %q, want %q", got, want)
	}
}

func TestLinesGoInAndOut(t *testing.T) {
	d := startDaemon(t, nil)
	in := "one\n\nthree \r\nlast without an end"
	felix(t, d.DataDir(), in, "pub", "s").ok(t)
	out := felix(t, d.DataDir(), "", "sub", "s", "--from", "earliest", "--count", "4").ok(t)
	if want := "one\n\nthree \nlast without an end\n"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
	if out := felix(t, d.DataDir(), "", "sub", "s", "--from", "2", "--count", "1").ok(t); out != "three \n" {
		t.Errorf("from offset 2: %q", out)
	}
	felix(t, d.DataDir(), "", "sub", "s", "--from", "9").fails(t, 1, "sub s: offset 9 is in the future (available: 4) (use --from 4, earliest or latest)")
}

func TestEveryWayToPublish(t *testing.T) {
	d := startDaemon(t, nil)
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for path, text := range map[string]string{a: "1\n2\n", b: "3\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range []struct {
		args  []string
		count string
		want  string
	}{
		{[]string{a, b, "-"}, "4", "1\n2\n3\nstdin\n"},
		{[]string{"--raw", a, b}, "2", "1\n2\n\n3\n\n"},
		{[]string{"--raw"}, "1", "stdin\n\n"},
		{[]string{"--ack", "none", a}, "2", "1\n2\n"},
		{[]string{"--ack", "message", a}, "2", "1\n2\n"},
		{[]string{"--batch", "1", a}, "2", "1\n2\n"},
		{[]string{"--key", "k", "--batch", "2", a, b}, "3", "1\n2\n3\n"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			stream := fmt.Sprint("s", i)
			felix(t, d.DataDir(), "stdin\n", append([]string{"pub", stream}, c.args...)...).ok(t)
			if out := felix(t, d.DataDir(), "", "sub", stream, "--from", "earliest", "--count", c.count).ok(t); out != c.want {
				t.Errorf("got %q, want %q", out, c.want)
			}
		})
	}
	felix(t, d.DataDir(), "", "pub", "s", "/does/not/exist").fails(t, 1, "pub s: open /does/not/exist: no such file or directory")
}

// A line arrives when it has been read, not when a batch is full or the input
// has ended.
func TestLinesAreSentAsTheyCome(t *testing.T) {
	d := startDaemon(t, nil)
	for _, flags := range [][]string{nil, {"--key", "k"}, {"--key", ""}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			stream := fmt.Sprint("live", len(strings.Join(flags, "")))
			in, feed := io.Pipe()
			published := make(chan result, 1)
			go func() {
				published <- felixEnv(t, []string{"FELIX_DATA_DIR=" + d.DataDir()}, in, append([]string{"pub", stream}, flags...)...)
			}()
			if _, err := io.WriteString(feed, "now\n"); err != nil {
				t.Fatal(err)
			}
			out := felix(t, d.DataDir(), "", "sub", stream, "--from", "earliest", "--count", "1")
			if err := feed.Close(); err != nil {
				t.Error(err)
			}
			(<-published).ok(t)
			if out.ok(t) != "now\n" {
				t.Errorf("got %q", out.stdout)
			}
		})
	}
}

// What does not fit a frame together is sent in several, with a key as without.
func TestLongLinesWithAKey(t *testing.T) {
	d := startDaemon(t, nil)
	line := strings.Repeat("x", 3<<20) + "\n"
	felix(t, d.DataDir(), strings.Repeat(line, 6), "pub", "s", "--key", "k").ok(t)
	if out := felix(t, d.DataDir(), "", "sub", "s", "--from", "earliest", "--count", "6").ok(t); out != strings.Repeat(line, 6) {
		t.Errorf("%d bytes came out, %d went in", len(out), 6*len(line))
	}
}

func TestJSON(t *testing.T) {
	d := startDaemon(t, nil)
	out := felix(t, d.DataDir(), "a\n\xff\n", "pub", "s", "--json").ok(t)
	var p pubReport
	if err := json.Unmarshal([]byte(out), &p); err != nil || p.Stream != "s" || p.Messages != 2 || p.Bytes != 2 || p.ElapsedUS <= 0 {
		t.Errorf("pub --json = %s, %v", out, err)
	}
	out = felix(t, d.DataDir(), "", "sub", "s", "--from", "earliest", "--count", "2", "--json").ok(t)
	if want := `{"offset":0,"payload":"a"}` + "\n" + `{"offset":1,"payload_base64":"/w=="}` + "\n"; out != want {
		t.Errorf("sub --json = %s, want %s", out, want)
	}
	felix(t, d.DataDir(), "", "cache", "put", "c", "k", "v").ok(t)
	if out := felix(t, d.DataDir(), "", "cache", "get", "c", "k", "--json").ok(t); out != `{"cache":"c","key":"k","found":true,"value":"v"}`+"\n" {
		t.Errorf("cache get --json = %s", out)
	}
	missing := felixEnv(t, []string{"FELIX_DATA_DIR=" + d.DataDir(), "FELIX_JSON=1"}, strings.NewReader(""), "cache", "get", "c", "none")
	missing.fails(t, 1, "cache get c none: no value")
	if missing.stdout != `{"cache":"c","key":"none","found":false}`+"\n" {
		t.Errorf("cache get of nothing with FELIX_JSON=1 = %s", missing.stdout)
	}
	var streams []daemon.StreamReport
	if err := json.Unmarshal([]byte(felix(t, d.DataDir(), "", "stream", "list", "--json").ok(t)), &streams); err != nil || len(streams) != 1 || streams[0].NextSeq != 2 {
		t.Errorf("stream list --json = %+v, %v", streams, err)
	}
	var v daemon.BuildInfo
	if err := json.Unmarshal([]byte(felix(t, d.DataDir(), "", "version", "--json").ok(t)), &v); err != nil || v.Version != daemon.Version || v.Engine == "" {
		t.Errorf("version --json = %+v, %v", v, err)
	}
}

func TestRawOutputIsExact(t *testing.T) {
	d := startDaemon(t, nil)
	payload := strings.Repeat("no line end \x00\xff", 10_000)
	felix(t, d.DataDir(), payload, "pub", "s", "--raw").ok(t)
	if out := felix(t, d.DataDir(), "", "sub", "s", "--from", "earliest", "--count", "1", "--raw").ok(t); out != payload {
		t.Errorf("%d bytes came out, %d went in", len(out), len(payload))
	}
}

func TestCacheCommands(t *testing.T) {
	d := startDaemon(t, nil)
	felix(t, d.DataDir(), "from stdin\n", "cache", "put", "c", "k").ok(t)
	if out := felix(t, d.DataDir(), "", "cache", "get", "c", "k").ok(t); out != "from stdin\n" {
		t.Errorf("get = %q", out)
	}
	felix(t, d.DataDir(), "", "cache", "delete", "c", "k").ok(t)
	testkit.Eventually(t, 20*time.Second, "the value is gone", func() bool {
		return felix(t, d.DataDir(), "", "cache", "get", "c", "k").code == 1
	})
	felix(t, d.DataDir(), "", "cache", "get", "c", "k").fails(t, 1, "cache get c k: no value")
	felix(t, d.DataDir(), "", "cache", "put", "c", "soon", "v", "--ttl", "1ms").ok(t)
	testkit.Eventually(t, 20*time.Second, "the value expires", func() bool {
		return felix(t, d.DataDir(), "", "cache", "get", "c", "soon").code == 1
	})
	if out := felix(t, d.DataDir(), "", "cache", "create", "d").ok(t); out != "cache t1/default/d created\n" {
		t.Errorf("create = %q", out)
	}
	if out := felix(t, d.DataDir(), "", "cache", "list").ok(t); !strings.Contains(out, "t1      default    d ") {
		t.Errorf("list = %q", out)
	}
}

func TestStreamCommands(t *testing.T) {
	d := startDaemon(t, func(c *daemon.Config) { c.AutoCreate = false })
	felix(t, d.DataDir(), "x\n", "pub", "s").fails(t, 1, "stream not found: tenant=t1 namespace=default stream=s (felix stream create s makes it)")
	felix(t, d.DataDir(), "", "sub", "s").fails(t, 1, "sub s: stream not found: tenant=t1 namespace=default stream=s (felix stream create makes a stream)")
	if out := felix(t, d.DataDir(), "", "stream", "create", "s", "--ring-entries", "2").ok(t); out != "stream t1/default/s created\n" {
		t.Errorf("create = %q", out)
	}
	if out := felix(t, d.DataDir(), "", "stream", "create", "s").ok(t); out != "stream t1/default/s exists\n" {
		t.Errorf("second create = %q", out)
	}
	felix(t, d.DataDir(), "1\n2\n3\n", "pub", "s").ok(t)
	if out := felix(t, d.DataDir(), "", "sub", "s", "--from", "earliest", "--count", "2").ok(t); out != "2\n3\n" {
		t.Errorf("a ring of 2 held %q", out)
	}
	if out := felix(t, d.DataDir(), "", "--tenant", "t2", "--namespace", "n", "stream", "create", "other").ok(t); out != "stream t2/n/other created\n" {
		t.Errorf("create elsewhere = %q", out)
	}
	felix(t, d.DataDir(), "", "stream", "delete", "s").ok(t)
	felix(t, d.DataDir(), "", "stream", "delete", "s").fails(t, 1, "stream delete s: stream not found")
}

func TestTokenCommands(t *testing.T) {
	d := startDaemon(t, nil)
	file := filepath.Join(t.TempDir(), "token")
	felix(t, d.DataDir(), "", "token", "issue", "--tenant", "t1", "--ttl", "1h", "--perm", "stream.subscribe:stream:t1/default/*", "--out", file).ok(t)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("token file: %v %v", info.Mode(), err)
	}
	felix(t, d.DataDir(), "x\n", "--token-file", file, "pub", "s").fails(t, 1, "forbidden")
	var v inspected
	out := felix(t, d.DataDir(), "", "token", "inspect", file, "--jwks", daemon.JWKSFile(d.DataDir()), "--json").ok(t)
	if err := json.Unmarshal([]byte(out), &v); err != nil || v.Tenant != "t1" || v.Expired || v.Verified == nil || !*v.Verified || len(v.Permissions) != 1 {
		t.Errorf("inspect = %s, %v", out, err)
	}
	if left := time.Until(v.ExpiresAt); left < 55*time.Minute || left > time.Hour {
		t.Errorf("life of the token: %v, want 1h", left)
	}
	token := strings.TrimSpace(felix(t, d.DataDir(), "", "token", "issue").ok(t))
	felix(t, d.DataDir(), "x\n", "--token", token, "pub", "s").ok(t)
	if out := felix(t, d.DataDir(), token, "token", "inspect", "-").ok(t); !strings.Contains(out, "permission  stream.publish:stream:t1/*/*") {
		t.Errorf("inspect = %s", out)
	}
	other, err := auth.GenerateKey("other")
	if err != nil {
		t.Fatal(err)
	}
	jwks := filepath.Join(t.TempDir(), "jwks.json")
	if err := auth.WriteKeySet(jwks, auth.NewKeySet(other.Public())); err != nil {
		t.Fatal(err)
	}
	felix(t, d.DataDir(), token, "token", "inspect", "-", "--jwks", jwks).fails(t, 1, "a broker with this key set refuses the token")
	felix(t, d.DataDir(), "", "token", "issue", "--perm", "nonsense").fails(t, 2, "malformed permission")
	felix(t, d.DataDir(), "x\n", "--token", "nonsense", "pub", "s").fails(t, 1, "check the token and --tenant t1")
}

// TestFlagsBeatEnvironmentBeatsEndpoint shows the order in which the broker is
// looked for.
func TestFlagsBeatEnvironmentBeatsEndpoint(t *testing.T) {
	near, far := startDaemon(t, nil), startDaemon(t, nil)
	e, err := daemon.ReadEndpoint(far.DataDir())
	if err != nil {
		t.Fatal(err)
	}
	environ := []string{"FELIX_DATA_DIR=" + near.DataDir(), "FELIX_ADDR=" + e.Addr, "FELIX_CA=" + e.CAFile, "FELIX_TOKEN_FILE=" + e.TokenFile}
	felixEnv(t, environ, strings.NewReader("far\n"), "pub", "s").ok(t)
	if n := len(far.Broker().Streams()); n != 1 {
		t.Errorf("the broker of the environment has %d streams, want 1", n)
	}
	n, err := daemon.ReadEndpoint(near.DataDir())
	if err != nil {
		t.Fatal(err)
	}
	felixEnv(t, environ, strings.NewReader("near\n"), "--addr", n.Addr, "--ca", n.CAFile, "--token-file", n.TokenFile, "pub", "s").ok(t)
	if n := len(near.Broker().Streams()); n != 1 {
		t.Errorf("the broker of the flags has %d streams, want 1", n)
	}
	felixEnv(t, environ[:2], strings.NewReader("x\n"), "--token", "x", "pub", "s").fails(t, 1, "connect to "+e.Addr)
}
