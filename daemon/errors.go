package daemon

import (
	"errors"
	"fmt"
)

// ErrDataDirInUse means that another broker holds the data directory.
var ErrDataDirInUse = errors.New("data directory is in use by another felixd")

// ErrAborted means that a stop was cut short: some work was dropped.
var ErrAborted = errors.New("shutdown cut short")

// A SettingError says that a setting has a value it cannot have, or that
// something which is not a setting was set.
type SettingError struct {
	Key   string // key in the configuration file
	Where string // "felixd.yaml:12", "environment variable FELIX_X", "flag --listen"; empty when built in code
	Msg   string // what is wrong and what would be right
	// Other is the entry that contradicts this one, and its place; empty for
	// most errors.
	Other string
}

func (e *SettingError) Error() string {
	text := e.Key + ": " + e.Msg
	if e.Where != "" {
		text = e.Where + ": " + text
	}
	if e.Other != "" {
		text += " " + e.Other
	}
	return text
}

func settingErrorf(key, where, format string, args ...any) *SettingError {
	return &SettingError{Key: key, Where: where, Msg: fmt.Sprintf(format, args...)}
}

// A StartError names the step of the start that failed and, where there is
// one, what to do about it.
type StartError struct {
	Step string
	Hint string
	Err  error
}

func (e *StartError) Error() string {
	if e.Hint == "" {
		return fmt.Sprintf("%s: %v", e.Step, e.Err)
	}
	return fmt.Sprintf("%s: %v (%s)", e.Step, e.Err, e.Hint)
}

func (e *StartError) Unwrap() error { return e.Err }
