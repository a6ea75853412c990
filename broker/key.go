package broker

import (
	"fmt"
	"unicode/utf8"
)

// maxNameBytes is the longest identifier that fits the wire's u16 string length.
const maxNameBytes = 65535

// Key names a stream or a cache. All three parts are non-empty UTF-8 of at most
// Options.MaxNameBytes.
type Key struct {
	Tenant    string
	Namespace string
	Name      string
}

// String returns the key in the form tenant/namespace/name.
func (k Key) String() string { return k.Tenant + "/" + k.Namespace + "/" + k.Name }

func (b *Broker) validateKey(k Key) error {
	if err := b.validateName("tenant", k.Tenant); err != nil {
		return err
	}
	if err := b.validateName("namespace", k.Namespace); err != nil {
		return err
	}
	return b.validateName("name", k.Name)
}

func (b *Broker) validateName(what, name string) error {
	limit := min(b.opts.MaxNameBytes, maxNameBytes)
	switch {
	case name == "":
		return &InvalidNameError{What: what, Reason: "empty"}
	case len(name) > limit:
		return &InvalidNameError{What: what, Reason: fmt.Sprintf("%d bytes, at most %d (max_name_bytes)", len(name), limit)}
	case !utf8.ValidString(name):
		return &InvalidNameError{What: what, Reason: "not UTF-8"}
	}
	return nil
}
