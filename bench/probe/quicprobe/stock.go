package quicprobe

import (
	"fmt"
	"os"
	"path/filepath"

	"felix/bench/probe"
	"felix/daemon"
)

// stockProgram is the program with the published engine, beside the one with the
// tuned engine.
const stockProgram = "felix-stock"

// chooseProgram returns what starts the processes. For stock runs of a program
// with the tuned engine that is stockProgram from the same folder; if there is
// none, the tuned engine runs with stock settings, and the note says so.
func chooseProgram(stock, tuned bool, l probe.Launcher) (probe.Launcher, []string, error) {
	if !stock || !tuned {
		return l, nil, nil
	}
	self := l.Program
	if self == "" {
		var err error
		if self, err = os.Executable(); err != nil {
			return l, nil, err
		}
	}
	file := filepath.Join(filepath.Dir(self), stockProgram)
	if !isFile(file) {
		return l, []string{fmt.Sprintf("%s is not next to this program: this is the tuned engine with stock settings, not the stock engine", stockProgram)}, nil
	}
	l.Program = file
	return l, nil, nil
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// sameBuild refuses processes of another version than this one: what they do may
// differ in more than the engine.
func sameBuild(members []*member) error {
	own := daemon.Build()
	for _, m := range members {
		b := m.ready.Build
		if b.Version != own.Version || b.Commit != own.Commit || b.Engine != members[0].ready.Build.Engine {
			return fmt.Errorf("the %s process is another build (%s, commit %q, %s): build both programs anew", m.role, b.Version, b.Commit, b.Engine)
		}
	}
	return nil
}
