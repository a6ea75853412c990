package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"felix/daemon"
)

const configurationIntro = `# Configuration of felixd

Every setting has one name, the key in the configuration file. It can be given in four places; the later one wins:

1. built-in default (development mode and profiles have defaults of their own),
2. configuration file (` + "`--config FILE`, else the file named by `FELIX_BROKER_CONFIG`" + `; there is no implicit one),
3. environment,
4. command line: ` + "`--set KEY=VALUE`, or the flag of its own that some settings have ([commands](cli.md))" + `.

` + "`felixd --check-config` checks the settings and exits with 0 or 1. `felixd --print-config`" + ` prints all settings in force as a
configuration file, with what each means and where its value came from.

## What is refused

Nothing is ignored in silence, since a setting that does nothing is worse than none. These are errors that name the setting, the place (file
and line, variable or flag) and what would be right:

* an unknown key, a key given twice, a key without a value, a second YAML document;
* a value of another type (` + "`\"5\"` or `1.5`" + ` for a number) or out of range; settings that contradict each other;
* a key of the original broker that has no counterpart here (list at the end);
* an environment variable that starts with ` + "`FELIX_`" + ` and belongs to no program of this project.

An environment is often shared between programs. So the original's variables without a counterpart are reported once in the log, with the
reason, and ignored; those of clients and benchmarks are passed over. An empty variable counts as unset. Words for switches are
` + "`1 true yes on` and `0 false no off`" + `.

## Reload

SIGHUP, or ` + "`POST /v1/reload` of the [admin interface](admin.md)" + `, reads file and environment again. Settings marked *reload* are taken over, as
are new content of ` + "`jwks_file`, `tls_cert_file` and `tls_key_file`" + `; other changes are logged as waiting for a restart. If the new
settings are wrong, all old ones stay in force. Clients notice nothing.

## Development mode

` + "`felixd --dev`" + ` serves loopback only and in memory. It makes a certificate, a signing key and a token once and keeps them in ` + "`data_dir`" + `, so that
clients still know the broker after a restart; it renews the token (good for 30 days) at each start and every day. Its standard output has the three things a
client needs: address, CA file, token file. ` + "`endpoint.json`" + ` in the data directory says the same to programs; it is removed at the end.

## A broker without control plane

Tenants, namespaces, streams and caches are listed in the file; tokens are checked with a static key set, or with a key that the broker makes itself:

` + "```yaml" + `
quic_bind: "0.0.0.0:5000"
data_dir: /var/lib/felix
tls_cert_file: /etc/felix/cert.pem
tls_key_file: /etc/felix/key.pem
jwks_file: /etc/felix/jwks.json
registry:
  namespaces:
    - {tenant: acme, namespace: default}
  streams:
    - {tenant: acme, namespace: default, stream: orders, ring_entries: 10000}
  caches:
    - {tenant: acme, namespace: default, cache: sessions}
` + "```" + `
`

// writeConfiguration documents every setting of felixd.
func writeConfiguration(_ context.Context, w io.Writer) error {
	var b strings.Builder
	b.WriteString(configurationIntro)
	plain, dev := daemon.DefaultConfig(false), daemon.DefaultConfig(true)
	group := ""
	for _, s := range daemon.Settings() {
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(&b, "\n## %s\n\n| setting | environment | default | values | meaning |\n| --- | --- | --- | --- | --- |\n", group)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", s.Key, variables(s), defaults(s, &plain, &dev), values(s), meaning(s))
	}
	fmt.Fprintf(&b, "\n## Keys of the original that are refused\n\n| key | reason |\n| --- | --- |\n")
	writeReasons(&b, daemon.RetiredKeys())
	fmt.Fprintf(&b, "\n## Variables of the original that are ignored\n\n| variable | reason |\n| --- | --- |\n")
	writeReasons(&b, daemon.RetiredVariables())
	_, err := io.WriteString(w, b.String())
	return err
}

func writeReasons(b *strings.Builder, reasons map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Fprintf(b, "| `%s` | %s |\n", name, reasons[name])
	}
}

func variables(s daemon.Setting) string {
	if s.Env == "" {
		return "-"
	}
	names := "`" + s.Env + "`"
	for _, a := range s.Aliases {
		names += ", `" + a + "`"
	}
	return names
}

// defaults shows the default, and that of development mode where it differs.
func defaults(s daemon.Setting, plain, dev *daemon.Config) string {
	a, b := show(plain.Value(s)), show(dev.Value(s))
	if a == b || s.Key == "dev" {
		return a
	}
	return a + "; in development mode " + b
}

func show(v any) string {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.String, reflect.Slice:
		if r.Len() == 0 {
			return "empty"
		}
		return fmt.Sprintf("`%v`", v)
	case reflect.Struct:
		if r.IsZero() {
			return "empty"
		}
		return "tenant `t1`, namespace `default`"
	default:
		return fmt.Sprint(v)
	}
}

func values(s daemon.Setting) string {
	switch {
	case s.OneOf != nil:
		return "`" + strings.Join(s.OneOf, "` `") + "`"
	case s.Max > 0:
		text := fmt.Sprintf("%d to %d", s.Min, s.Max)
		if s.Unit != "" {
			text += " " + s.Unit
		}
		return text
	}
	return ""
}

func meaning(s daemon.Setting) string {
	if s.Reload {
		return s.Doc + " *Reload.*"
	}
	return s.Doc
}
