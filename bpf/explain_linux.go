//go:build amd64 || arm64

package bpf

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"felix/platform"
)

// explain says why a variant could not be loaded or attached. The library's own
// text is not shown: it blames the memlock limit for every EPERM.
func explain(err error, v *variant) *Reason {
	var verifier *ebpf.VerifierError
	switch {
	case errors.Is(err, unix.EPERM):
		return explainEPERM(err)
	case errors.Is(err, unix.ENOMEM):
		return &Reason{Kind: ReasonMemory, Text: "the kernel has no memory for BPF maps", Err: err}
	case errors.As(err, &verifier):
		return &Reason{
			Kind:   ReasonVerifier,
			Text:   fmt.Sprintf("the kernel's verifier refuses %s on %s", strings.Join(v.programs, ", "), platform.Kernel()),
			Remedy: "report it with the log of the daemon",
			Err:    verifier,
		}
	case errors.Is(err, ebpf.ErrNotSupported):
		return &Reason{
			Kind:   ReasonKernel,
			Text:   fmt.Sprintf("%s lacks something that %s needs: %s", platform.Kernel(), strings.Join(v.programs, ", "), plain(err)),
			Remedy: "use Linux 6.3 or newer",
			Err:    err,
		}
	}
	return &Reason{Kind: ReasonOther, Text: "the kernel refuses the programs: " + plain(err), Err: err}
}

// plain is the innermost error's text.
func plain(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}

// rights is what the host's state says about the permission to load programs.
type rights struct {
	bpf, perfmon, admin platform.Answer
	firstUserNS         platform.Answer
	capsExist           bool // CAP_BPF and CAP_PERFMON, Linux 5.8
	memlockCounts       bool // memory is charged to the limit, before Linux 5.11
}

func currentRights() rights {
	k := platform.Kernel()
	return rights{
		bpf:           platform.HasCapability(platform.CapBPF),
		perfmon:       platform.HasCapability(platform.CapPerfmon),
		admin:         platform.HasCapability(platform.CapSysAdmin),
		firstUserNS:   platform.InitialUserNamespace(),
		capsExist:     k.AtLeast(5, 8),
		memlockCounts: !k.AtLeast(5, 11),
	}
}

func explainEPERM(err error) *Reason { return currentRights().explain(err) }

func (r rights) explain(err error) *Reason {
	missing := r.missing()
	switch {
	case r.firstUserNS == platform.No:
		return &Reason{
			Kind:   ReasonUserNamespace,
			Text:   "BPF needs " + r.names() + " in the host's user namespace, and the process is in another one",
			Remedy: "run the daemon outside of the user namespace",
			Err:    err,
		}
	case len(missing) > 0:
		return &Reason{
			Kind:   ReasonRights,
			Text:   "BPF needs " + r.names() + ", and the process lacks " + strings.Join(missing, " and "),
			Remedy: "grant " + r.names() + ", for instance with AmbientCapabilities= in the unit",
			Err:    err,
		}
	case r.memlockCounts:
		return &Reason{
			Kind:   ReasonMemory,
			Text:   "the memlock limit is too low for BPF maps",
			Remedy: "set LimitMEMLOCK=infinity in the unit",
			Err:    err,
		}
	}
	return &Reason{
		Kind:   ReasonPolicy,
		Text:   "the process has " + r.names() + ", and the kernel refuses BPF all the same: lockdown, a security module or a system-call filter",
		Remedy: "allow bpf(2) in the filter or the policy",
		Err:    err,
	}
}

// names are the capabilities that loading needs.
func (r rights) names() string {
	if r.capsExist {
		return "CAP_BPF and CAP_PERFMON"
	}
	return "CAP_SYS_ADMIN"
}

// missing names the capabilities that the process does not have. CAP_SYS_ADMIN
// includes both others.
func (r rights) missing() []string {
	if r.admin == platform.Yes {
		return nil
	}
	if !r.capsExist {
		return []string{platform.CapSysAdmin.String()}
	}
	var out []string
	if r.bpf != platform.Yes {
		out = append(out, platform.CapBPF.String())
	}
	if r.perfmon != platform.Yes {
		out = append(out, platform.CapPerfmon.String())
	}
	return out
}

func explainNoBTF(err error) *Reason {
	why := "/sys/kernel/btf/vmlinux is damaged"
	if f := platform.BTF(); !f.Supported() {
		why = f.Reason
	}
	return &Reason{
		Kind:   ReasonNoBTF,
		Text:   "the kernel's type information is missing: " + why,
		Remedy: "use a kernel with CONFIG_DEBUG_INFO_BTF=y, and in a container mount /sys",
		Err:    err,
	}
}

func noTracepoint(names []string) *Reason {
	return &Reason{
		Kind:   ReasonNoTracepoint,
		Text:   fmt.Sprintf("%s has no tracepoint %s", platform.Kernel(), strings.Join(names, ", ")),
		Remedy: "use Linux 6.3 or newer, built with CONFIG_TRACEPOINTS=y",
	}
}

func explainStats(err error) *Reason {
	switch {
	case errors.Is(err, os.ErrPermission):
		return &Reason{
			Kind:   ReasonRights,
			Text:   "measuring programs needs CAP_SYS_ADMIN",
			Remedy: "grant it, or set sysctl kernel.bpf_stats_enabled=1 for a while",
			Err:    err,
		}
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.EINVAL):
		return &Reason{Kind: ReasonKernel, Text: "measuring programs needs Linux 5.8", Err: err}
	}
	return &Reason{Kind: ReasonOther, Text: "the kernel does not measure programs: " + plain(err), Err: err}
}
