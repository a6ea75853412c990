package daemon

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// A LoadRequest says where settings come from. The order of precedence is:
// built-in default, file, environment, flags; the later one wins.
type LoadRequest struct {
	File    string            // configuration file; empty: EnvConfigFile, else none
	Environ []string          // KEY=VALUE as from os.Environ
	Flags   map[string]string // setting key -> text, from the command line
	// FlagNames maps a setting key to the flag it was given with, for
	// messages; a missing entry reads --set KEY.
	FlagNames map[string]string
}

// Loaded is a checked Config and where its values came from.
type Loaded struct {
	Config Config
	File   string // the file that was read; empty: none
	// Sources says where a setting came from, by its key; a missing one has its
	// default. Entries of lists in the file have lines of their own, under keys
	// like registry.streams[0].
	Sources map[string]string
	Ignored []IgnoredVariable
}

// Load reads, merges and checks all settings. Errors about a setting are
// *SettingError.
func Load(r LoadRequest) (*Loaded, error) {
	file := r.File
	if file == "" {
		file = lookup(r.Environ, EnvConfigFile)
	}
	var text []byte
	if file != "" {
		var err error
		if text, err = os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("configuration file: %w", err)
		}
	}
	l, err := r.merge(DefaultConfig(false), file, text)
	if err != nil {
		return nil, err
	}
	if dev, profile := l.Config.Dev, l.Config.Profile; dev || profile != profileStandard { // these have defaults of their own
		if l, err = r.merge(DefaultConfig(dev).withProfile(profile), file, text); err != nil {
			return nil, err
		}
	}
	if err := l.validate(); err != nil {
		return nil, err
	}
	return l, nil
}

func (r LoadRequest) merge(base Config, file string, text []byte) (*Loaded, error) {
	l := &Loaded{Config: base, File: file, Sources: map[string]string{}}
	if err := applyYAML(&l.Config, file, text, l.Sources); err != nil {
		return nil, err
	}
	var err error
	if l.Ignored, err = applyEnvironment(&l.Config, r.Environ, l.Sources); err != nil {
		return nil, err
	}
	if err := r.applyFlags(&l.Config, l.Sources); err != nil {
		return nil, err
	}
	return l, nil
}

// applyFlags sets the fields that the command line names.
func (r LoadRequest) applyFlags(c *Config, sources map[string]string) error {
	vars, where := map[string]string{}, map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(r.Flags)) {
		name, ok := r.FlagNames[key]
		if !ok {
			name = "--set " + key
		}
		s, known := settingByKey(key)
		if !known {
			return settingErrorf(key, "flag "+name, "%s", whyNotASetting(key))
		}
		if s.Env == "" {
			return settingErrorf(key, "flag "+name, "can only be set in the configuration file")
		}
		vars[s.Env], where[s.Env] = r.Flags[key], "flag "+name
	}
	return applyTexts(c, vars, where, sources)
}

// validate checks the merged settings and tells where a wrong one came from.
func (l *Loaded) validate() error {
	err := l.Config.Validate()
	if e, ok := err.(*SettingError); ok { //nolint:errorlint // Validate returns it unwrapped
		e.Where = l.place(e.Key)
		if where := l.place(e.Other); where != "" {
			e.Other += " at " + where
		}
	}
	return err
}

// place is the line, variable or flag that a setting, or an entry of a list,
// was set by; empty: none, or the default.
func (l *Loaded) place(key string) string {
	where, ok := l.Sources[key]
	if !ok {
		key, _, _ = strings.Cut(key, "[")
		key, _, _ = strings.Cut(key, ".")
		where = l.Sources[key]
	}
	return strings.TrimPrefix(where, "file ")
}

// lookup finds a variable in a list of KEY=VALUE.
func lookup(environ []string, name string) string {
	for _, kv := range environ {
		if k, v, _ := strings.Cut(kv, "="); k == name {
			return v
		}
	}
	return ""
}
