package quicprobe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"felix/bench/probe"
	"felix/daemon"
)

func TestStockProgram(t *testing.T) {
	with, without := t.TempDir(), t.TempDir()
	file := filepath.Join(with, stockProgram)
	if err := os.WriteFile(file, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, stockProgram), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name         string
		stock, tuned bool
		dir          string
		want         string // program chosen, "": the one asked for
		note         bool
	}{
		{"tuned run of a tuned program", false, true, with, "", false},
		{"stock run of a stock program", true, false, with, "", false},
		{"stock run of a tuned program", true, true, with, file, false},
		{"stock run, nothing beside it", true, true, without, "", true},
		{"stock run, a folder of that name", true, true, folder, "", true},
	} {
		l := probe.Launcher{Program: filepath.Join(c.dir, "felix"), Args: []string{"probe", "raw"}}
		got, notes, err := chooseProgram(c.stock, c.tuned, l)
		if err != nil {
			t.Fatal(err)
		}
		if c.want == "" {
			c.want = l.Program
		}
		if got.Program != c.want || len(got.Args) != 2 || (len(notes) > 0) != c.note {
			t.Errorf("%s: %+v, notes %q", c.name, got, notes)
		}
	}
	if _, notes, err := chooseProgram(true, true, probe.Launcher{}); err != nil || len(notes) == 0 {
		t.Errorf("beside the test binary: %q, %v", notes, err)
	}
}

func TestOtherBuildsAreRefused(t *testing.T) {
	members := func(change func(*daemon.BuildInfo)) []*member {
		a, b := &ready{Build: daemon.Build()}, &ready{Build: daemon.Build()}
		change(&b.Build)
		return []*member{{role: roleReceiver, ready: a}, {role: roleSender, ready: b}}
	}
	if err := sameBuild(members(func(*daemon.BuildInfo) {})); err != nil {
		t.Errorf("the same build: %v", err)
	}
	for name, change := range map[string]func(*daemon.BuildInfo){
		"version": func(b *daemon.BuildInfo) { b.Version = "9.9.9" },
		"commit":  func(b *daemon.BuildInfo) { b.Commit = "0123456789" },
		"engine":  func(b *daemon.BuildInfo) { b.Engine = "quic-go v9 tuned" },
	} {
		if err := sameBuild(members(change)); err == nil || !strings.Contains(err.Error(), "the sender process is another build") {
			t.Errorf("another %s: %v", name, err)
		}
	}
}
