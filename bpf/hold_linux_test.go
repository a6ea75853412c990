//go:build amd64 || arm64

package bpf

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// holdProbes opens probes with pins in the directory that the environment
// names, writes what became of them to standard output, and waits until standard
// input ends.
func holdProbes() error {
	p, err := Open(Options{Mode: ModeFull, PinDir: os.Getenv(pinEnv)})
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(p.Status().Pins); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return p.Close()
}

// hold starts holdProbes with the given attributes, and returns its pins once
// it has them.
func hold(t *testing.T, dir string, attr *syscall.SysProcAttr) (*exec.Cmd, heldPins) {
	t.Helper()
	cmd := helper("hold", pinEnv+"="+dir)
	cmd.SysProcAttr = attr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait() // killed, or already waited for
	})
	var pins heldPins
	if err := json.NewDecoder(out).Decode(&pins); err != nil {
		t.Fatalf("the helper process says nothing: %v", err)
	}
	return cmd, pins
}

// heldPins is what the JSON of PinStatus says.
type heldPins struct {
	Paths  []string
	Reason *struct{ Kind, Text, Remedy string }
}

// pinEnv names the pin directory of the helper process.
const pinEnv = "FELIX_BPF_PINS"
