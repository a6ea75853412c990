package daemon

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/caarlos0/env/v11"
)

// EnvConfigFile names the configuration file when --config is not given.
const EnvConfigFile = "FELIX_BROKER_CONFIG"

// An IgnoredVariable is an environment variable of the original broker that
// is set and has no effect here.
type IgnoredVariable struct {
	Name   string
	Reason string
}

// applyEnvironment sets the fields of c that the environment names. An empty
// variable counts as unset. A variable that starts with FELIX_ and is known
// neither here nor to the client programs is an error.
func applyEnvironment(c *Config, environ []string, sources map[string]string) ([]IgnoredVariable, error) {
	vars, ignored, err := felixVariables(environ)
	if err != nil {
		return nil, err
	}
	where := map[string]string{} // variable -> what errors call it
	for name := range vars {
		where[name] = "environment variable " + name
	}
	if err := resolveAliases(vars, where); err != nil {
		return nil, err
	}
	if err := applyTexts(c, vars, where, sources); err != nil {
		return nil, err
	}
	return ignored, nil
}

// felixVariables picks the settings out of environ and judges the rest.
func felixVariables(environ []string) (map[string]string, []IgnoredVariable, error) {
	known := map[string]bool{}
	for _, s := range Settings() {
		for _, name := range append([]string{s.Env}, s.Aliases...) {
			known[name] = true
		}
	}
	vars := map[string]string{}
	var ignored []IgnoredVariable
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if value == "" {
			continue
		}
		switch reason, old := retiredVariables[name]; {
		case known[name]:
			vars[name] = value
		case old:
			ignored = append(ignored, IgnoredVariable{name, reason})
		case !strings.HasPrefix(name, "FELIX_"), foreignVariable(name):
		default:
			return nil, nil, fmt.Errorf("environment variable %s: not a setting of felixd%s", name, suggest(name, slices.Sorted(maps.Keys(known))))
		}
	}
	slices.SortFunc(ignored, func(a, b IgnoredVariable) int { return strings.Compare(a.Name, b.Name) })
	return vars, ignored, nil
}

// resolveAliases moves the value of an alias to the variable it stands for.
func resolveAliases(vars, where map[string]string) error {
	for _, s := range Settings() {
		for _, alias := range s.Aliases {
			value, set := vars[alias]
			if !set {
				continue
			}
			if other, both := vars[s.Env]; both && other != value {
				return settingErrorf(s.Key, where[alias], "differs from %s, which means the same (unset one)", s.Env)
			}
			vars[s.Env], where[s.Env] = value, where[alias]
			delete(vars, alias)
		}
	}
	return nil
}

// applyTexts sets fields from text, keyed by their environment variable.
func applyTexts(c *Config, vars, where, sources map[string]string) error {
	opts := env.Options{Environment: vars, FuncMap: map[reflect.Type]env.ParserFunc{
		reflect.TypeFor[bool](): func(v string) (any, error) { return parseBool(v) },
	}}
	for _, s := range Settings() {
		v := c.field(s)
		if text := vars[s.Env]; (v.CanInt() || v.CanUint()) && leadingZero(text) {
			return settingErrorf(s.Key, where[s.Env], "is %q, want %s without leading zeros", text, wanted(v))
		}
	}
	if err := env.ParseWithOptions(c, opts); err != nil {
		return explainEnvError(err, vars, where)
	}
	for _, s := range Settings() {
		if _, set := vars[s.Env]; set && s.Env != "" {
			sources[s.Key] = where[s.Env]
		}
	}
	return nil
}

// explainEnvError names the setting and its variable instead of the Go field.
func explainEnvError(err error, vars, where map[string]string) error {
	var parse env.ParseError
	if !errors.As(err, &parse) {
		return fmt.Errorf("environment: %w", err)
	}
	f, ok := reflect.TypeFor[Config]().FieldByName(parse.Name)
	if !ok {
		return fmt.Errorf("environment: %w", err)
	}
	name := f.Tag.Get("env")
	return settingErrorf(yamlKey(f), where[name], "is %q, want %s", vars[name], wanted(reflect.New(f.Type).Elem()))
}

// suggest names the candidate that looks most like word, if one is close.
func suggest(word string, candidates []string) string {
	best, distance := "", len(word)/4+1
	for _, c := range candidates {
		if d := editDistance(word, c); d <= distance && c != "" {
			best, distance = c, d-1
		}
	}
	if best == "" {
		return ""
	}
	return " (did you mean " + best + "?)"
}

// editDistance is the number of single-character changes from a to b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		prev := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			prev, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, prev+cost)
		}
	}
	return row[len(b)]
}
