package probe

import (
	"errors"
	"fmt"
	"testing"
)

func TestInvalid(t *testing.T) {
	if err := Invalid(); err != nil {
		t.Errorf("no reasons, yet %v", err)
	}
	err := fmt.Errorf("probe udp: %w", Invalid("too short", "too small"))
	var bad *InvalidMeasurement
	if !errors.As(err, &bad) || len(bad.Reasons) != 2 {
		t.Fatalf("lost: %v", err)
	}
	if got, want := err.Error(), "probe udp: invalid measurement: too short; too small"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
