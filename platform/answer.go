package platform

import (
	"fmt"
	"sync"
)

// Answer is the outcome of a probe. The zero value is Unknown.
type Answer uint8

const (
	// Unknown: the probe could not tell, for instance because it ran out of
	// descriptors. It says nothing about the feature and is asked again.
	Unknown Answer = iota
	// Yes: the host has it.
	Yes
	// No: the host does not have it.
	No
)

// String returns "unknown", "yes" or "no".
func (a Answer) String() string {
	switch a {
	case Yes:
		return "yes"
	case No:
		return "no"
	default:
		return "unknown"
	}
}

// MarshalText writes the form of [Answer.String].
func (a Answer) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads the form of [Answer.String].
func (a *Answer) UnmarshalText(b []byte) error {
	switch string(b) {
	case "yes":
		*a = Yes
	case "no":
		*a = No
	case "unknown":
		*a = Unknown
	default:
		return fmt.Errorf("answer %q: want yes, no or unknown", b)
	}
	return nil
}

// AnswerOf turns a decided question into an Answer.
func AnswerOf(yes bool) Answer {
	if yes {
		return Yes
	}
	return No
}

// Feature is an answer with its evidence.
type Feature struct {
	Answer Answer `json:"answer"`
	// Reason is one phrase: what was tried and what the host said.
	Reason string `json:"reason"`
	// Err is the error behind a No or an Unknown, nil for Yes.
	Err error `json:"-"`
}

// Supported reports whether the answer is Yes.
func (f Feature) Supported() bool { return f.Answer == Yes }

func yes(reason string) Feature { return Feature{Answer: Yes, Reason: reason} }

func no(reason string, err error) Feature {
	return Feature{Answer: No, Reason: withErr(reason, err), Err: err}
}

func unknown(reason string, err error) Feature {
	return Feature{Answer: Unknown, Reason: withErr(reason, err), Err: err}
}

func withErr(reason string, err error) string {
	if err == nil {
		return reason
	}
	return reason + ": " + err.Error()
}

// cachedProbe runs a probe until it gives a definite answer and keeps that.
type cachedProbe struct {
	run func() Feature

	mu   sync.Mutex
	last Feature
}

func (c *cachedProbe) get() Feature {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last.Answer == Unknown {
		c.last = c.run()
	}
	return c.last
}
