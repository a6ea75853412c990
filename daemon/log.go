package daemon

import (
	"fmt"
	"io"
	"log/slog"
)

// Keys of log attributes.
const (
	logAddr    = "addr"
	logConn    = "conn"
	logError   = "error"
	logFile    = "file"
	logKey     = "setting"
	logPath    = "path"
	logReason  = "reason"
	logRemote  = "remote"
	logSource  = "source"
	logStep    = "step"
	logTook    = "took"
	logVersion = "version"
)

// NewLogger returns a logger that writes to w in the given format (text or
// json), and the level that decides what it writes, which can be changed
// while it is in use.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, *slog.LevelVar, error) {
	v := new(slog.LevelVar)
	if err := setLevel(v, level); err != nil {
		return nil, nil, err
	}
	o := &slog.HandlerOptions{Level: v}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), v, nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), v, nil
	}
	return nil, nil, settingErrorf("log_format", "", "is %q, want text or json", format)
}

func setLevel(v *slog.LevelVar, level string) error {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return fmt.Errorf("log_level: %w", err)
	}
	v.Set(l)
	return nil
}
