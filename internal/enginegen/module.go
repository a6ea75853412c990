package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// module is what the go command says of a module.
type module struct {
	Path    string
	Version string
	Dir     string
	Replace *module
}

// modules are the main module and the engine as it pins it.
type modules struct {
	root   string // folder of go.mod
	engine module
}

// findModules asks the go command. The engine is downloaded if the module cache does not have it.
func findModules() (modules, error) {
	var m modules
	var main module
	if err := goJSON(&main, "list", "-m", "-json"); err != nil {
		return m, err
	}
	m.root = main.Dir
	if err := goJSON(&m.engine, "list", "-m", "-json", engineModule); err != nil {
		return m, err
	}
	if m.engine.Replace != nil {
		return m, fmt.Errorf("go.mod already replaces %s", engineModule)
	}
	if m.engine.Dir == "" {
		if err := goJSON(&m.engine, "mod", "download", "-json", engineModule); err != nil {
			return m, err
		}
	}
	return m, nil
}

// goJSON runs the go command and decodes its output. Flags from the environment, which may name the tuned module
// file, are left out.
func goJSON(into any, args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	text, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return fmt.Errorf("go %s: %w: %s", args[0], err, exit.Stderr)
		}
		return fmt.Errorf("go %s: %w", args[0], err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("go %s: %w", args[0], err)
	}
	return nil
}
