package daemon

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func writeConfigFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "felixd.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPrecedence(t *testing.T) {
	file := writeConfigFile(t, "quic_bind: 127.0.0.1:1\npub_queue_depth: 11\nack_on_commit: true\nring_entries: 7\n")
	l, err := Load(LoadRequest{
		File:    file,
		Environ: []string{"FELIX_QUIC_BIND=127.0.0.1:2", "FELIX_BROKER_PUB_QUEUE_DEPTH=12", "FELIX_RING_BYTES=9", "FELIX_RING_ENTRIES="},
		Flags:   map[string]string{"quic_bind": "127.0.0.1:3"}, FlagNames: map[string]string{"quic_bind": "--listen"},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := l.Config
	if c.QUICBind != "127.0.0.1:3" || c.PubQueueDepth != 12 || !c.AckOnCommit || c.RingBytes != 9 || c.RingEntries != 7 {
		t.Errorf("flag, environment, file = %q %d %v %d %d", c.QUICBind, c.PubQueueDepth, c.AckOnCommit, c.RingBytes, c.RingEntries)
	}
	if c.MaxFrameBytes != DefaultConfig(false).MaxFrameBytes {
		t.Errorf("max_frame_bytes = %d, want the default", c.MaxFrameBytes)
	}
	for key, want := range map[string]string{
		"quic_bind": "flag --listen", "pub_queue_depth": "environment variable FELIX_BROKER_PUB_QUEUE_DEPTH",
		"ack_on_commit": "file " + file + ":3", "max_frame_bytes": "default",
	} {
		if got := l.source(key); got != want {
			t.Errorf("source of %s = %q, want %q", key, got, want)
		}
	}
}

// The same stream twice with the same options says nothing wrong, and zeros are no leading ones.
func TestLenientWhereNothingIsMeant(t *testing.T) {
	file := writeConfigFile(t, "keep_alive_ms: 0\nring_entries: 0x10\nregistry:\n  streams:\n  - {tenant: '010', namespace: n, stream: 010}\n  - {tenant: '010', namespace: n, stream: '010'}\n")
	l, err := Load(LoadRequest{File: file, Environ: []string{"FELIX_RETRY_ABOVE=0", "FELIX_DISABLE_TIMINGS=0"}})
	if err != nil {
		t.Fatal(err)
	}
	if s := l.Config.Registry.Streams[0]; s.Stream != "010" || l.Config.RingEntries != 16 {
		t.Errorf("stream %q, ring_entries %d", s.Stream, l.Config.RingEntries)
	}
}

func TestConfigFileFromEnvironment(t *testing.T) {
	file := writeConfigFile(t, "pub_queue_depth: 11\n")
	l, err := Load(LoadRequest{Environ: []string{EnvConfigFile + "=" + file}})
	if err != nil || l.Config.PubQueueDepth != 11 || l.File != file {
		t.Errorf("Load = %+v, %v", l, err)
	}
	if _, err := Load(LoadRequest{Environ: []string{EnvConfigFile + "=/does/not/exist"}}); err == nil {
		t.Error("a missing file named by the environment was ignored")
	}
}

func TestStrictFile(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"unknown key", "quic_bind: 127.0.0.1:1\nqiuc_bind: x\n", ":2: qiuc_bind: unknown setting (did you mean quic_bind?)"},
		{"retired key", "\nsubscriber_writer_lanes: 4\n", ":2: subscriber_writer_lanes: has no effect in this broker: there are no writer lanes"},
		{"wrong type", "pub_queue_depth: many\n", `:1: pub_queue_depth: is "many", want a whole number`},
		{"fraction", "pub_queue_depth: 1.5\n", `:1: pub_queue_depth: is "1.5", want a whole number`},
		{"quoted number", "pub_queue_depth: \"5\"\n", `:1: pub_queue_depth: is "5", want a whole number`},
		{"list for a number", "pub_queue_depth: [1]\n", ":1: pub_queue_depth: is a list, want a whole number"},
		{"empty value", "pub_queue_depth:\n", ":1: pub_queue_depth: is empty, want a whole number"},
		{"negative window", "cache_conn_recv_window: -1\n", `:1: cache_conn_recv_window: is "-1", want a whole number that is not negative`},
		{"no boolean", "ack_on_commit: maybe\n", `:1: ack_on_commit: is "maybe", want true or false`},
		{"out of range", "\n\npub_queue_depth: 0\n", ":3: pub_queue_depth: is 0, want 1 to 16777216 publishes"},
		{"no word of the list", "udp_gso: sometimes\n", `:1: udp_gso: is "sometimes", want one of auto, on, off`},
		{"twice", "ring_entries: 1\nring_entries: 2\n", ":2: ring_entries: set twice (first on line 1)"},
		{"nested unknown key", "registry:\n  streams:\n  - {tenant: t, namespace: n, streem: s}\n", ":3: registry.streams[0].streem: no such key (known: tenant, namespace, stream, ring_entries, ring_bytes)"},
		{"nested missing name", "registry:\n  streams:\n  - {tenant: t, namespace: n}\n", ":3: registry.streams[0]: stream is missing or empty"},
		{"nested long name", "max_name_bytes: 4\nregistry:\n  tenants:\n  - four\n  - fives\n", ":5: registry.tenants[1]: tenant has 5 bytes, at most 4 (max_name_bytes)"},
		{"nested bad limit", "registry:\n  streams:\n  - {tenant: t, namespace: n, stream: a}\n  - tenant: t\n    namespace: n\n    stream: b\n    ring_bytes: -1\n", ":4: registry.streams[1]: negative ring limit"},
		{"stream twice", "registry:\n  streams:\n  - {tenant: t, namespace: n, stream: a, ring_entries: 1}\n\n  - {tenant: t, namespace: n, stream: a, ring_entries: 2}\n", ":5: registry.streams[1]: stream t/n/a has other options than registry.streams[0] at $FILE:3"},
		{"octal", "ring_entries: 010\n", `:1: ring_entries: is "010", want a whole number without leading zeros`},
		{"negative octal", "ring_entries: -010\n", `:1: ring_entries: is "-010", want a whole number without leading zeros`},
		{"octal with a separator", "cache_conn_recv_window: 0_100_000\n", `:1: cache_conn_recv_window: is "0_100_000", want a whole number that is not negative without leading zeros`},
		{"nested octal", "registry:\n  streams:\n  - {tenant: t, namespace: n, stream: a, ring_entries: 010}\n", `:3: registry.streams[0].ring_entries: is "010", want a whole number without leading zeros`},
		{"not a mapping", "- a\n", ":1: the file is a list"},
		{"two documents", "ring_entries: 1\n---\nring_entries: 2\n", "a second YAML document"},
		{"no YAML", "a: [\n", "did not find expected node content"},
		{"bad address", "quic_bind: here\n", `:1: quic_bind: is "here", want address:port (missing port in address)`},
		{"bad port", "quic_bind: 127.0.0.1:99999\n", "the port must be a number from 0 to 65535"},
		{"tiny packets", "initial_mtu: 900\n", ":1: initial_mtu: is 900, want 0 or 1200 to 65527 bytes"},
		{"certificate without key", "tls_cert_file: a.pem\n", ":1: tls_cert_file: needs tls_key_file too"},
		{"foreign keys in development mode", "dev: true\njwks_file: keys.json\n", ":2: jwks_file: development mode makes its own signing key"},
		{"budget below a frame", "pub_conn_inflight_bytes: 2048\n", ":1: pub_conn_inflight_bytes: is 2048, want at least max_frame_bytes"},
		{"grace over budget", "drain_grace_ms: 30000\n", ":1: drain_grace_ms: is 30000, larger than shutdown_drain_timeout_ms"},
		{"keep-alive too slow", "keep_alive_ms: 20000\n", ":1: keep_alive_ms: is 20000, want at most half of idle_timeout_ms"},
		{"public development mode", "dev: true\nquic_bind: 0.0.0.0:5000\n", ":2: quic_bind: is \"0.0.0.0:5000\", but development mode serves loopback only"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := writeConfigFile(t, c.text)
			_, err := Load(LoadRequest{File: file})
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), strings.ReplaceAll(c.want, "$FILE", file)) || !strings.HasPrefix(err.Error(), file) {
				t.Errorf("error = %q\nwant %q", err, c.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error has several lines: %q", err)
			}
		})
	}
}

func TestStrictEnvironmentAndFlags(t *testing.T) {
	for _, c := range []struct {
		name  string
		env   []string
		flags map[string]string
		want  string
	}{
		{"wrong type", []string{"FELIX_BROKER_PUB_QUEUE_DEPTH=many"}, nil, `environment variable FELIX_BROKER_PUB_QUEUE_DEPTH: pub_queue_depth: is "many", want a whole number`},
		{"out of range", []string{"FELIX_BROKER_PUB_QUEUE_DEPTH=0"}, nil, "environment variable FELIX_BROKER_PUB_QUEUE_DEPTH: pub_queue_depth: is 0"},
		{"leading zero", []string{"FELIX_RING_ENTRIES=010"}, nil, `environment variable FELIX_RING_ENTRIES: ring_entries: is "010", want a whole number without leading zeros`},
		{"flag with a leading zero", nil, map[string]string{"ring_entries": "007"}, `flag --set ring_entries: ring_entries: is "007", want a whole number without leading zeros`},
		{"boolean", []string{"FELIX_ACK_ON_COMMIT=perhaps"}, nil, `ack_on_commit: is "perhaps", want true or false`},
		{"typo", []string{"FELIX_QUIC_BNID=127.0.0.1:1"}, nil, "environment variable FELIX_QUIC_BNID: not a setting of felixd (did you mean FELIX_QUIC_BIND?)"},
		{"aliases that differ", []string{"FELIX_SUB_QUEUE_CAPACITY=1", "FELIX_SUBSCRIBER_QUEUE_CAPACITY=2"}, nil, "environment variable FELIX_SUB_QUEUE_CAPACITY: subscriber_queue_capacity: differs from FELIX_SUBSCRIBER_QUEUE_CAPACITY"},
		{"flag value", nil, map[string]string{"ring_entries": "x"}, `flag --set ring_entries: ring_entries: is "x"`},
		{"unknown flag key", nil, map[string]string{"ring": "1"}, "flag --set ring: ring: unknown setting"},
		{"file-only setting", nil, map[string]string{"registry": "x"}, "flag --set registry: registry: can only be set in the configuration file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load(LoadRequest{Environ: c.env, Flags: c.flags})
			var setting *SettingError
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v\nwant %q", err, c.want)
			} else if c.name != "typo" && !errors.As(err, &setting) {
				t.Errorf("%v is no SettingError", err)
			}
		})
	}
}

func TestEnvironmentAliasesAndWords(t *testing.T) {
	l, err := Load(LoadRequest{Environ: []string{
		"FELIX_SUB_QUEUE_CAPACITY=77", "FELIX_ACK_ON_COMMIT=yes", "FELIX_TLS_NAMES=a.example,10.0.0.1",
		"FELIX_SUB_LANE_SHARD=auto", "FELIX_DURABLE_STORAGE_DIR=x", "RUST_LOG=debug",
		"FELIX_AUTH_TOKEN=secret", "FELIX_PUB_CONN_POOL=4", "FELIX_TEST_BIN=x", "HOME=x",
	}})
	if err != nil {
		t.Fatal(err)
	}
	c := l.Config
	if c.SubscriberQueueCapacity != 77 || !c.AckOnCommit || !reflect.DeepEqual(c.TLSNames, []string{"a.example", "10.0.0.1"}) {
		t.Errorf("config = %d %v %v", c.SubscriberQueueCapacity, c.AckOnCommit, c.TLSNames)
	}
	var names []string
	for _, i := range l.Ignored {
		if i.Reason == "" {
			t.Errorf("%s is ignored without a reason", i.Name)
		}
		names = append(names, i.Name)
	}
	if got, want := strings.Join(names, " "), "FELIX_DURABLE_STORAGE_DIR FELIX_SUB_LANE_SHARD RUST_LOG"; got != want {
		t.Errorf("ignored = %q, want %q", got, want)
	}
}

func TestDevelopmentDefaults(t *testing.T) {
	l, err := Load(LoadRequest{Flags: map[string]string{"dev": "true"}})
	if err != nil {
		t.Fatal(err)
	}
	if !isLoopback(l.Config.QUICBind) || !isLoopback(l.Config.MetricsBind) || !l.Config.AutoCreate {
		t.Errorf("development mode has %q %q %v", l.Config.QUICBind, l.Config.MetricsBind, l.Config.AutoCreate)
	}
	l, err = Load(LoadRequest{Environ: []string{"FELIX_DEV=1", "FELIX_AUTO_CREATE=false"}})
	if err != nil || l.Config.AutoCreate {
		t.Errorf("the environment does not beat a default of development mode: %v", err)
	}
}

// altered returns text for a value of the setting that differs from its
// current one and passes the checks.
func altered(t *testing.T, c *Config, s Setting) string {
	t.Helper()
	texts := map[string]string{
		"dev": "true", "data_dir": "elsewhere", "admin_socket": "off", "metrics_bind": "127.0.0.1:1", "quic_bind": "127.0.0.1:1",
		"tls_names": "a.example", "jwks_file": "keys.json", "initial_mtu": "1300", "mtu_upper_bound": "1400", "keep_alive_ms": "1000", "probes_pin_dir": "/pins",
		"drain_grace_ms": "1000", "pub_inflight_bytes": "99999999", "pub_conn_inflight_bytes": "33333333", "idle_timeout_ms": "60000", "max_frame_bytes": "65536",
		"cache_conn_recv_window": "100000000", "max_name_bytes": "99", "cache_stream_recv_window": "32768", "loopback_packet_size": "1300",
	}
	if text, ok := texts[s.Key]; ok {
		return text
	}
	v := c.field(s)
	switch {
	case s.OneOf != nil:
		for _, word := range s.OneOf {
			if word != v.String() {
				return word
			}
		}
	case v.Kind() == reflect.Bool:
		if v.Bool() {
			return "false"
		}
		return "true"
	case v.CanInt():
		return "3"
	case v.CanUint():
		return "20000"
	}
	t.Fatalf("no other value known for %s", s.Key)
	return ""
}

func TestPrintedConfigLoadsBack(t *testing.T) {
	for _, dev := range []bool{false, true} {
		flags := map[string]string{}
		base := DefaultConfig(dev)
		for _, s := range Settings() {
			switch {
			case s.Env == "" || s.Key == "dev" || dev && s.Key == "jwks_file" || strings.HasPrefix(s.Key, "tls_cert") || strings.HasPrefix(s.Key, "tls_key"):
			case s.Key == "idle_timeout_ms" || s.Key == "shutdown_drain_timeout_ms":
				flags[s.Key] = "2500"
			case s.Key == "auth_timeout_ms" || s.Key == "handshake_timeout_ms":
				flags[s.Key] = "100"
			case s.Min > 3:
				flags[s.Key] = altered(t, &base, s)
				if flags[s.Key] == "3" {
					flags[s.Key] = "1048576"
				}
			default:
				flags[s.Key] = altered(t, &base, s)
			}
		}
		if dev {
			flags["dev"] = "true"
		}
		l, err := Load(LoadRequest{Flags: flags, File: writeConfigFile(t, "registry:\n  streams:\n  - {tenant: t, namespace: n, stream: 'yes', ring_entries: 9}\n  caches:\n  - {tenant: t, namespace: n, cache: '5'}\n")})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := l.WriteConfig(&out); err != nil {
			t.Fatal(err)
		}
		again, err := Load(LoadRequest{File: writeConfigFile(t, out.String())})
		if err != nil {
			t.Fatalf("printed configuration is refused: %v\n%s", err, out.String())
		}
		if !reflect.DeepEqual(again.Config, l.Config) {
			t.Errorf("printed configuration reads back as\n%+v\nwant\n%+v", again.Config, l.Config)
		}
		if !strings.Contains(out.String(), "Source: flag --set ring_entries.") {
			t.Error("the source of a value is missing")
		}
	}
}

func TestSettingsAreDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Settings() {
		if s.Doc == "" || s.Group == "" || !strings.HasSuffix(s.Doc, ".") {
			t.Errorf("%s has no complete description", s.Key)
		}
		if s.Env == "" && s.Key != "registry" {
			t.Errorf("%s has no environment variable", s.Key)
		}
		if _, retired := retiredKeys[s.Key]; retired || retiredVariables[s.Env] != "" {
			t.Errorf("%s is a setting and retired", s.Key)
		}
		if foreignVariable(s.Env) {
			t.Errorf("%s is a setting and another program's", s.Env)
		}
		c := DefaultConfig(false)
		if v := c.field(s); (v.CanInt() || v.CanUint()) && s.Max == 0 {
			t.Errorf("%s has no range", s.Key)
		}
		seen[s.Key] = true
	}
	for key := range settingDocs {
		if !seen[key] {
			t.Errorf("description of %s belongs to no setting", key)
		}
	}
	for _, dev := range []bool{false, true} {
		c := DefaultConfig(dev)
		if err := c.Validate(); err != nil {
			t.Errorf("defaults (dev %v): %v", dev, err)
		}
	}
}
