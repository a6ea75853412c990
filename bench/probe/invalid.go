package probe

import "strings"

// InvalidMeasurement says that what was asked for, or what came out, is not a
// measurement. Programs end with exit code 3 on it.
type InvalidMeasurement struct {
	// Reasons are the phrases that say why, at least one.
	Reasons []string
}

func (e *InvalidMeasurement) Error() string {
	return "invalid measurement: " + strings.Join(e.Reasons, "; ")
}

// Invalid returns an InvalidMeasurement, or nil if there are no reasons.
func Invalid(reasons ...string) error {
	if len(reasons) == 0 {
		return nil
	}
	return &InvalidMeasurement{Reasons: reasons}
}
