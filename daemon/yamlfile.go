package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// applyYAML sets the fields of c that the document names. name stands for the
// file in errors and sources. It is strict: unknown keys, repeated keys, keys
// without a value, values of another type and a second document are errors
// with the line they are on.
func applyYAML(c *Config, name string, text []byte, sources map[string]string) error {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil // an empty file sets nothing
	} else if err != nil {
		return fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	var more yaml.Node
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s:%d: a second YAML document (a configuration file has one)", name, max(more.Line, 1))
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return nil // only comments
	}
	d := yamlDecoder{file: name, sources: sources}
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("%s: the file is %s, not a list of settings `key: value`", d.where(root), kindName(root))
	}
	return d.mapping(root, "", func(key string, keyNode, value *yaml.Node) error {
		s, ok := settingByKey(key)
		if !ok {
			return settingErrorf(key, d.where(keyNode), "%s", whyNotASetting(key))
		}
		if err := d.value(value, c.field(s), key); err != nil {
			return err
		}
		sources[key] = "file " + d.where(keyNode)
		return nil
	})
}

// yamlDecoder turns nodes into Go values, refusing everything that yaml.v3
// would convert or skip without a word.
type yamlDecoder struct {
	file    string
	sources map[string]string
}

func (d yamlDecoder) where(n *yaml.Node) string { return fmt.Sprintf("%s:%d", d.file, n.Line) }

// mapping calls f for each key of n.
func (d yamlDecoder) mapping(n *yaml.Node, path string, f func(key string, keyNode, value *yaml.Node) error) error {
	seen := map[string]int{}
	for i := 0; i < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode {
			return fmt.Errorf("%s: a key that is not a word", d.where(k))
		}
		if line, twice := seen[k.Value]; twice {
			return settingErrorf(joinPath(path, k.Value), d.where(k), "set twice (first on line %d)", line)
		}
		seen[k.Value] = k.Line
		if err := f(k.Value, k, v); err != nil {
			return err
		}
	}
	return nil
}

func (d yamlDecoder) value(n *yaml.Node, v reflect.Value, path string) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch v.Kind() {
	case reflect.Struct:
		return d.structure(n, v, path)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			return d.wrongType(n, path, "a list")
		}
		if len(n.Content) == 0 {
			v.SetZero()
			return nil
		}
		list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
		for i, item := range n.Content {
			at := fmt.Sprintf("%s[%d]", path, i)
			if err := d.value(item, list.Index(i), at); err != nil {
				return err
			}
			d.sources[at] = "file " + d.where(item)
		}
		v.Set(list)
		return nil
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		return d.wrongType(n, path, wanted(v))
	}
	if err := setScalar(v, n.Value, n.ShortTag()); err != nil {
		return settingErrorf(path, d.where(n), "%v", err)
	}
	return nil
}

func (d yamlDecoder) structure(n *yaml.Node, v reflect.Value, path string) error {
	if n.Kind != yaml.MappingNode {
		return d.wrongType(n, path, "a group of keys")
	}
	return d.mapping(n, path, func(key string, keyNode, value *yaml.Node) error {
		for i := range v.NumField() {
			if yamlKey(v.Type().Field(i)) == key {
				return d.value(value, v.Field(i), joinPath(path, key))
			}
		}
		return settingErrorf(joinPath(path, key), d.where(keyNode), "no such key (known: %s)", strings.Join(structKeys(v.Type()), ", "))
	})
}

func (d yamlDecoder) wrongType(n *yaml.Node, path, want string) error {
	return settingErrorf(path, d.where(n), "is %s, want %s", kindName(n), want)
}

// setScalar stores text in v. tag is the YAML type the text was written as.
func setScalar(v reflect.Value, text, tag string) error {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
		return nil
	case reflect.Bool:
		b, err := parseBool(text)
		if err != nil {
			return err
		}
		v.SetBool(b)
		return nil
	}
	if tag != "!!int" {
		return fmt.Errorf("is %q, want %s", text, wanted(v))
	}
	if leadingZero(text) {
		return fmt.Errorf("is %q, want %s without leading zeros", text, wanted(v))
	}
	text = strings.ReplaceAll(text, "_", "")
	var err error
	if v.CanUint() {
		var n uint64
		if n, err = strconv.ParseUint(text, 0, v.Type().Bits()); err == nil {
			v.SetUint(n)
		}
	} else {
		var n int64
		if n, err = strconv.ParseInt(text, 0, v.Type().Bits()); err == nil {
			v.SetInt(n)
		}
	}
	if err != nil {
		return fmt.Errorf("is %q, want %s", text, wanted(v))
	}
	return nil
}

// leadingZero reports whether a number starts with a zero that is not all of it:
// for some readers of YAML that makes it octal, for others and for the
// environment it does not. 0x and the like are clear.
func leadingZero(text string) bool {
	digits := strings.TrimLeft(text, "+-")
	return len(digits) > 1 && digits[0] == '0' && (digits[1] == '_' || '0' <= digits[1] && digits[1] <= '9')
}

// parseBool takes the words YAML files, environments and people use.
func parseBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "1", "true", "yes", "on":
		return true, nil
	case "0", "false", "no", "off":
		return false, nil
	}
	return false, fmt.Errorf("is %q, want true or false", text)
}

func wanted(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	case reflect.Uint, reflect.Uint64:
		return "a whole number that is not negative"
	default:
		return "a whole number"
	}
}

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a group of keys"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		if n.ShortTag() == "!!null" {
			return "empty"
		}
		return strconv.Quote(n.Value)
	}
	return "an alias"
}

func structKeys(t reflect.Type) []string {
	keys := make([]string, t.NumField())
	for i := range keys {
		keys[i] = yamlKey(t.Field(i))
	}
	return keys
}

func joinPath(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
