package daemon

import (
	"reflect"
	"strings"
)

// A Setting describes one field of Config: what it is called, which values it
// takes and what it means. The descriptions are the source of
// docs/configuration.md and of the comments of --print-config.
type Setting struct {
	Key     string   // YAML key
	Env     string   // environment variable; empty: configuration file only
	Aliases []string // further environment variables with the same meaning
	Group   string   // heading it is listed under
	Unit    string   // unit of a number; empty when it is a count or no number
	Min     int64    // smallest value of a number
	Max     int64    // largest value of a number
	OneOf   []string // the values of a word; nil: any text
	Reload  bool     // taken over by a reload (SIGHUP) without a restart
	Doc     string   // one or more sentences
	index   int      // field of Config
}

// Settings returns the description of every setting, in the order of the
// fields of Config.
func Settings() []Setting {
	out := make([]Setting, 0, len(settingDocs))
	t := reflect.TypeFor[Config]()
	for i := range t.NumField() {
		f := t.Field(i)
		key := yamlKey(f)
		s := settingDocs[key]
		s.Key, s.Env, s.index = key, f.Tag.Get("env"), i
		out = append(out, s)
	}
	return out
}

// settingByKey finds a setting by its YAML key.
func settingByKey(key string) (Setting, bool) {
	for _, s := range Settings() {
		if s.Key == key {
			return s, true
		}
	}
	return Setting{}, false
}

// field is the value of setting s in c.
func (c *Config) field(s Setting) reflect.Value {
	return reflect.ValueOf(c).Elem().Field(s.index)
}

// Value returns the value of setting s, one of Settings.
func (c *Config) Value(s Setting) any { return c.field(s).Interface() }

func yamlKey(f reflect.StructField) string {
	key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return key
}

// Groups of settings, in the order in which they are documented.
const (
	groupService   = "Service"
	groupNetwork   = "Network"
	groupSecurity  = "Security"
	groupPublish   = "Publishing"
	groupSubscribe = "Subscribing"
	groupState     = "Streams and caches"
)

var (
	switchValues = []string{"auto", "on", "off"}
	policyValues = []string{"drop_new", "block", "drop_old"}
)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
	tib = 1 << 40
)
