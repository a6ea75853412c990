//go:build amd64 || arm64

package bpf

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
)

// holdProbes opens probes with pins in the directory that the environment
// names, writes its status to standard output, and waits until standard input
// ends.
func holdProbes() error {
	p, err := Open(Options{Mode: ModeFull, PinDir: os.Getenv(pinEnv)})
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(p.Status()); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return p.Close()
}

// hold starts holdProbes with the given attributes, and returns what it says once
// it holds them.
func hold(t *testing.T, dir string, attr *syscall.SysProcAttr) (*exec.Cmd, held) {
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
	var h held
	if err := json.NewDecoder(out).Decode(&h); err != nil {
		t.Fatalf("the helper process says nothing: %v", err)
	}
	return cmd, h
}

// held is what the JSON of Status says.
type held struct {
	Metrics []struct{ Programs []struct{ ID ebpf.ProgramID } }
	Pins    struct {
		Paths  []string
		Reason *struct{ Kind, Text, Remedy string }
	}
}

func (h held) programs() (ids []ebpf.ProgramID) {
	for _, m := range h.Metrics {
		for _, p := range m.Programs {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// pinEnv names the pin directory of the helper process.
const pinEnv = "FELIX_BPF_PINS"
