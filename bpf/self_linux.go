//go:build amd64 || arm64

package bpf

import (
	"errors"
	"os"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// askTGID returns this process's id in the first PID namespace, which is what
// programs compare with. In any other PID namespace os.Getpid is another
// number, so a program is run that returns what the kernel sees.
func (l *loader) askTGID() (uint32, *Reason) {
	tgid, err := l.runSelf()
	switch {
	case err == nil && tgid != 0:
		return tgid, nil
	case errors.Is(err, unix.EPERM):
		return 0, explainEPERM(err)
	case inFirstPIDNamespace():
		return uint32(os.Getpid()), nil
	}
	return 0, &Reason{
		Kind:   ReasonPIDNamespace,
		Text:   "the process is in a PID namespace and the kernel does not run a program that tells its id outside",
		Remedy: "use Linux 5.10 or newer, or the host's PID namespace",
		Err:    err,
	}
}

func (l *loader) runSelf() (uint32, error) {
	p, err := ebpf.NewProgram(l.spec.Programs[objectsProgFelixSelf])
	if err != nil {
		return 0, err
	}
	defer func() { _ = p.Close() }() // releases the descriptor
	return p.Run(&ebpf.RunOptions{})
}

// inFirstPIDNamespace compares with the fixed inode number of the first PID
// namespace (include/linux/proc_ns.h, PROC_PID_INIT_INO = 0xEFFFFFFC).
func inFirstPIDNamespace() bool {
	link, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && link == "pid:[4026531836]"
}
