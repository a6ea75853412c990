package daemon

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"felix/transport"
)

// Version is the release this source tree belongs to.
const Version = "0.1.0"

// A BuildInfo says what a program was built from.
type BuildInfo struct {
	Version            string `json:"version"`
	Commit             string `json:"commit"` // empty when built outside a repository
	Modified           bool   `json:"modified"`
	Go                 string `json:"go"`
	Platform           string `json:"platform"`
	Engine             string `json:"engine"`
	PacketCeilingBytes int    `json:"packet_ceiling_bytes"`
}

// Build describes the running program.
func Build() BuildInfo {
	e := transport.Engine()
	b := BuildInfo{
		Version: Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Engine: e.Name, PacketCeilingBytes: e.PacketCeiling,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String is what --version prints after the program's name.
func (b BuildInfo) String() string {
	commit := b.Commit
	if commit == "" {
		commit = "unknown"
	} else if b.Modified {
		commit += " (modified)"
	}
	return fmt.Sprintf("%s\ncommit  %s\ngo      %s %s\nengine  %s, packets up to %d bytes",
		b.Version, commit, b.Go, b.Platform, b.Engine, b.PacketCeilingBytes)
}
