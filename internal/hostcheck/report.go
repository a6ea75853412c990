package hostcheck

import (
	"context"
	"fmt"
	"slices"
)

// Severity grades a finding. The zero value is OK.
type Severity uint8

const (
	// OK: as it should be.
	OK Severity = iota
	// Notice: worth knowing; the data path does not suffer from it.
	Notice
	// CostsThroughput: the broker works and is slower than it could be, or
	// loses datagrams under load.
	CostsThroughput
	// Unsafe: something will fail or be lost.
	Unsafe
)

var severityNames = []string{"ok", "notice", "costs-throughput", "unsafe"}

// String returns "ok", "notice", "costs-throughput" or "unsafe".
func (s Severity) String() string {
	if int(s) < len(severityNames) {
		return severityNames[s]
	}
	return fmt.Sprintf("Severity(%d)", uint8(s))
}

// MarshalText writes the form of [Severity.String].
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the form of [Severity.String].
func (s *Severity) UnmarshalText(b []byte) error {
	i := slices.Index(severityNames, string(b))
	if i < 0 {
		return fmt.Errorf("severity %q: want one of %v", b, severityNames)
	}
	*s = Severity(i)
	return nil
}

// Finding is the judgement on one property of the host.
type Finding struct {
	// ID names the property; it is stable across versions.
	ID string `json:"id"`
	// Title is its name for people.
	Title string `json:"title"`
	// Severity grades it.
	Severity Severity `json:"severity"`
	// Evidence is what was seen.
	Evidence string `json:"evidence"`
	// Why says what follows from it; "" if all is well.
	Why string `json:"why,omitempty"`
	// Remedy says what to change; nil if there is nothing to change.
	Remedy *Remedy `json:"remedy,omitempty"`
}

// Remedy is what an operator can do about a finding.
type Remedy struct {
	// Text is one sentence.
	Text string `json:"text"`
	// Commands take effect at once and do not survive a restart of the host.
	Commands []string `json:"commands,omitempty"`
	// Settings are kernel settings to keep; they make up the report's drop-in.
	Settings []Setting `json:"settings,omitempty"`
}

// Setting is one kernel setting.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// DropIn is a file that keeps the settings over restarts of the host.
type DropIn struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// Report is the outcome of a check.
type Report struct {
	// Severity is the worst of all findings.
	Severity Severity `json:"severity"`
	// Facts are what the findings were judged by.
	Facts Facts `json:"facts"`
	// Findings in a fixed order, the good ones included.
	Findings []Finding `json:"findings"`
	// DropIn holds the settings of all remedies together; nil if there are none.
	DropIn *DropIn `json:"drop_in,omitempty"`
}

// Count returns the number of findings of a severity.
func (r Report) Count(s Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// Find returns the finding with the given ID.
func (r Report) Find(id string) (Finding, bool) {
	for _, f := range r.Findings {
		if f.ID == id {
			return f, true
		}
	}
	return Finding{}, false
}

// Err returns a [*DeficientError] if a finding costs throughput or safety.
func (r Report) Err() error {
	if r.Severity < CostsThroughput {
		return nil
	}
	return &DeficientError{Costs: r.Count(CostsThroughput), Unsafe: r.Count(Unsafe)}
}

// DeficientError says that the host holds a broker back or endangers it. The
// report has the details.
type DeficientError struct {
	Costs  int // findings that cost throughput
	Unsafe int // findings that are unsafe
}

func (e *DeficientError) Error() string {
	return fmt.Sprintf("host check: findings that cost throughput: %d, unsafe: %d (see the remedies in the report)", e.Costs, e.Unsafe)
}

// Run gathers the facts of this host and judges them. It opens a few sockets on
// loopback, sends a handful of bytes to itself, and takes well under a second.
// What cannot be found out becomes a finding, not an error. When ctx ends the
// rest of the facts stay unknown.
func Run(ctx context.Context) Report { return Evaluate(Gather(ctx)) }

// Evaluate judges facts.
func Evaluate(f Facts) Report {
	r := Report{Facts: f}
	for _, rules := range []func(Facts) []Finding{bufferRules, engineRules, networkRules, rightsRules, limitRules} {
		r.Findings = append(r.Findings, rules(f)...)
	}
	for _, x := range r.Findings {
		r.Severity = max(r.Severity, x.Severity)
	}
	r.DropIn = dropIn(f.Kernel.OS, r.Findings)
	return r
}
