package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"felix/daemon"
)

// TestPagesAreUpToDate fails when a program has changed and its page has not.
func TestPagesAreUpToDate(t *testing.T) {
	for name, write := range pages {
		want, err := render(t.Context(), write)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("../../docs", name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("docs/%s is not what the programs give: run make generate", name)
		}
	}
}

func TestEverySettingIsDocumented(t *testing.T) {
	text, err := render(t.Context(), writeConfiguration)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range daemon.Settings() {
		if !strings.Contains(string(text), "| `"+s.Key+"` |") || s.Env != "" && !strings.Contains(string(text), "`"+s.Env+"`") {
			t.Errorf("%s is missing", s.Key)
		}
	}
}
