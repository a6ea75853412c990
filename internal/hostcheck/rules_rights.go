package hostcheck

import (
	"strings"

	"felix/platform"
)

// rightsRules judge what the process may do. Systems without capabilities have
// nothing to judge.
func rightsRules(f Facts) []Finding {
	if !f.linux() {
		return nil
	}
	return []Finding{f.netAdmin(), f.probeRights(), f.probeTypes()}
}

// netAdmin only matters while the host's limits are below what is asked for,
// which the buffer rules judge.
func (f Facts) netAdmin() Finding {
	x := Finding{ID: "cap_net_admin", Title: "buffers beyond the host's limit"}
	switch {
	case f.ForcedBuffers.Answer == platform.Yes:
		x.Evidence = "allowed (CAP_NET_ADMIN)"
	case f.ForcedBuffers.Answer == platform.Unknown:
		x.Severity, x.Evidence = Notice, reasonOf(f.ForcedBuffers)
	case f.NetAdmin == platform.Yes && f.UserNamespace == platform.No:
		x.Evidence = "not allowed: CAP_NET_ADMIN holds in this user namespace only"
	default:
		x.Evidence = "not allowed: CAP_NET_ADMIN is missing"
	}
	return x
}

func (f Facts) probeRights() Finding {
	x := Finding{ID: "cap_bpf", Title: "rights for kernel probes"}
	var missing []string
	if f.SysAdmin != platform.Yes { // which covers both
		if f.BPFRight != platform.Yes {
			missing = append(missing, "CAP_BPF")
		}
		if f.PerfmonRight != platform.Yes {
			missing = append(missing, "CAP_PERFMON")
		}
	}
	const why = "felix diagnose does without evidence from the kernel; the broker runs the same"
	switch {
	case f.UserNamespace == platform.No:
		x.Severity, x.Why = Notice, why
		x.Evidence = "this is a user namespace, whose capabilities do not reach the kernel's probes"
		x.Remedy = &Remedy{Text: "run the daemon in the host's user namespace, or leave probes off"}
	case len(missing) > 0:
		x.Severity, x.Why = Notice, why
		x.Evidence = "missing: " + strings.Join(missing, " and ")
		x.Remedy = &Remedy{Text: "give the daemon both, in its unit: AmbientCapabilities=CAP_BPF CAP_PERFMON (Linux 5.8; CAP_SYS_ADMIN before)"}
	default:
		x.Evidence = "CAP_BPF and CAP_PERFMON"
	}
	return x
}

func (f Facts) probeTypes() Finding {
	x := Finding{ID: "btf", Title: "kernel types for probes (BTF)", Evidence: reasonOf(f.BTF)}
	if f.BTF.Answer == platform.Yes {
		return x
	}
	x.Severity = Notice
	x.Why = "probes that read kernel structures stay off"
	x.Remedy = &Remedy{Text: "use a kernel built with CONFIG_DEBUG_INFO_BTF, as the distributions' are, and mount /sys in containers"}
	return x
}

// reasonOf is the evidence of a probe, also of one that was never run.
func reasonOf(p platform.Feature) string {
	if p.Reason == "" {
		return "not found out"
	}
	return p.Reason
}
