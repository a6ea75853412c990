package client

import (
	"errors"
	"testing"

	"felix/wire"
)

// The names in a text say nothing about what went wrong.
func TestRefusalIsNotMisledByNames(t *testing.T) {
	for _, name := range []string{"permissions", "forbidden", "auth failed", "unauthorized", "tenant mismatch", "byte budget", "tokens"} {
		for _, text := range []string{wire.StreamNotFoundText("t1", "default", name), wire.CacheNotFoundText(name, "default", "c")} {
			var missing *NotFoundError
			if err := refusal(text); !errors.As(err, &missing) || missing.Message != text {
				t.Errorf("%q is taken for %T", text, err)
			}
		}
	}
}
