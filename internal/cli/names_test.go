package cli

import (
	"strings"
	"testing"

	"felix/daemon"
)

// Names and permissions are chosen by others than the one who looks at them: a terminal must not obey them.
func TestNoControlCharactersInOutput(t *testing.T) {
	d := startDaemon(t, nil)
	const name = "\x1b[31mred\u009b0m\u202e"
	const quoted = `\x1b[31mred\u009b0m\u202e`
	check := func(r result) {
		t.Helper()
		for _, text := range []string{r.stdout, r.stderr} {
			if strings.ContainsAny(text, "\x1b\u009b\u202e\r\a") {
				t.Errorf("control characters in %q", text)
			}
		}
		if !strings.Contains(r.stdout+r.stderr, quoted) {
			t.Errorf("no %s in %q %q", quoted, r.stdout, r.stderr)
		}
	}
	in := func(args ...string) result { return felix(t, d.DataDir(), "", args...) }
	for _, args := range [][]string{
		{"stream", "create", name}, {"stream", "create", name}, {"stream", "list"}, {"stream", "delete", name}, {"stream", "delete", name},
		{"cache", "create", name}, {"cache", "list"}, {"cache", "get", name, name}, {"--tenant", name, "cache", "create", "c"},
		{"--tenant", name, "sub", "s"}, {"--namespace", name, "sub", name}, {"--namespace", name, "pub", name, d.DataDir() + "/token"},
		{"sub", "s", "--from", name}, {"pub", "s", "--ack", name}, {"pub", "s", "/does/not/exist" + name}, {name}, {"stream", name},
		{"--data-dir", "/does/not/exist" + name, "stream", "list"}, {"--addr", name, "--token", "x", "sub", "s"},
		{"--addr", "127.0.0.1:1", "--token-file", "/does/not/exist" + name, "sub", "s"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) { check(in(args...)) })
	}
	token := strings.TrimSpace(in("token", "issue", "--subject", name, "--perm", "cache.read:"+name).ok(t))
	check(in("token", "inspect", token))
	check(in("token", "inspect", "--jwks", daemon.JWKSFile(d.DataDir()), strings.TrimSpace(in("--tenant", name, "token", "issue").ok(t))))
	if out := in("stream", "create", "plain ü/世").ok(t); out != "stream t1/default/plain ü/世 created\n" {
		t.Errorf("a printable name was changed: %q", out)
	}
}

// A name that cannot be sent is refused before anything is, with the argument it was given as.
func TestImpossibleNames(t *testing.T) {
	d := startDaemon(t, nil)
	in := func(args ...string) result { return felix(t, d.DataDir(), "x\n", args...) }
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"cache", "get", "", "k"}, "felix: cache get: CACHE is empty"},
		{[]string{"cache", "put", "", "k", "v"}, "felix: cache put: CACHE is empty"},
		{[]string{"cache", "put", "c", "\xff", "v"}, `felix: cache put: KEY is not UTF-8: "\xff"`},
		{[]string{"cache", "delete", "\xff", "k"}, `felix: cache delete: CACHE is not UTF-8: "\xff"`},
		{[]string{"cache", "create", ""}, "felix: cache create: CACHE is empty"},
		{[]string{"stream", "create", "a\xff"}, `felix: stream create: STREAM is not UTF-8: "a\xff"`},
		{[]string{"stream", "delete", ""}, "felix: stream delete: STREAM is empty"},
		{[]string{"pub", ""}, "felix: pub: STREAM is empty"},
		{[]string{"sub", "\xff"}, `felix: sub: STREAM is not UTF-8: "\xff"`},
		{[]string{"sub", strings.Repeat("x", 65_536)}, "felix: sub: STREAM has 65536 bytes, at most 65535 fit a request"},
		{[]string{"--tenant", "\xff", "sub", "s"}, `--tenant is not UTF-8: "\xff"`},
		{[]string{"--namespace", "\xff", "stream", "create", "s"}, `--namespace is not UTF-8: "\xff"`},
		{[]string{"--tenant", "\xff", "token", "issue"}, `--tenant is not UTF-8: "\xff"`},
		{[]string{"token", "issue", "--subject", "\xff"}, `--subject is not UTF-8: "\xff"`},
		{[]string{"stream", "create", strings.Repeat("x", 1025)}, "invalid name: 1025 bytes, at most 1024 (max_name_bytes)"},
		{[]string{"pub", strings.Repeat("x", 1025)}, "invalid name: 1025 bytes, at most 1024 (max_name_bytes)"},
	} {
		t.Run(strings.Join(c.args[:2], " "), func(t *testing.T) {
			r := in(c.args...)
			r.fails(t, 1, c.want)
			if strings.Contains(r.stderr, "broker: broker: ") {
				t.Errorf("prefix twice: %q", r.stderr)
			}
		})
	}
	if out := in("stream", "list").ok(t); strings.Count(out, "\n") != 1 {
		t.Errorf("refused commands made streams: %q", out)
	}
}

// The frame limit is a setting of felix too, and what is over it is told in its terms.
func TestFrameLimit(t *testing.T) {
	d := startDaemon(t, nil)
	in := func(limit, stdin string, args ...string) result {
		return felixEnv(t, []string{"FELIX_DATA_DIR=" + d.DataDir(), "FELIX_MAX_FRAME_BYTES=" + limit}, strings.NewReader(stdin), args...)
	}
	big := strings.Repeat("x", 5000)
	const want = "the frame limit is 4096 bytes (set FELIX_MAX_FRAME_BYTES for felix and max_frame_bytes for felixd)"
	for _, args := range [][]string{{"pub", "s"}, {"pub", "s", "--raw"}, {"pub", "s", "--key", "k"}, {"cache", "put", "c", "k"}} {
		r := in("4096", big, args...)
		r.fails(t, 1, want)
		if strings.Contains(r.stderr, "Config.") || strings.Contains(r.stderr, "MaxFrameBytes") {
			t.Errorf("%v: Go names in %q", args, r.stderr)
		}
		in("", big, args...).ok(t)
	}
	in("65536", big, "pub", "s").ok(t)
	for _, bad := range []string{"x", "-1", "1023", "1073741825", "010000", "1e6"} {
		in(bad, big, "pub", "s").fails(t, 1, "FELIX_MAX_FRAME_BYTES: is \""+bad+`", want 1024 to 1073741824 bytes`)
	}
}
