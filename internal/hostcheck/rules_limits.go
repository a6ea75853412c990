package hostcheck

import (
	"fmt"
	"strconv"

	"felix/platform"
)

const (
	// fewFiles is too small a limit of open descriptors: the daemon's own
	// files, log segments and admin connections can use it up. launchd starts
	// daemons with 256.
	fewFiles = 256
	// someFiles is enough for a broker without many durable streams.
	someFiles = 1024
	// manyFiles is what the shipped service files set.
	manyFiles = 65536
)

func limitRules(f Facts) []Finding {
	out := []Finding{f.openFiles()}
	if f.linux() && !f.Kernel.AtLeast(5, 11) {
		out = append(out, f.lockedMemory())
	}
	return append(out, f.processors())
}

func (f Facts) openFiles() Finding {
	x := Finding{ID: "open_files", Title: "open files"}
	if f.OpenFiles == nil {
		x.Severity, x.Evidence = Notice, f.why("open_files")
		return x
	}
	soft := f.OpenFiles.Soft
	x.Evidence = "at most " + limitText(soft)
	if soft >= someFiles {
		return x
	}
	x.Severity = Notice
	x.Why = "QUIC clients share one descriptor; durable streams and admin connections need one or more each"
	if soft <= fewFiles {
		x.Severity = Unsafe
	}
	service := fmt.Sprintf("LimitNOFILE=%d in the unit", manyFiles)
	if f.Kernel.OS == "darwin" {
		service = fmt.Sprintf("NumberOfFiles %d in both SoftResourceLimits and HardResourceLimits of the plist", manyFiles)
	}
	x.Remedy = &Remedy{
		Text:     "raise the limit of the process: " + service,
		Commands: []string{fmt.Sprintf("ulimit -n %d", manyFiles)},
	}
	return x
}

func limitText(v uint64) string {
	if v == platform.Unlimited {
		return "unlimited"
	}
	return strconv.FormatUint(v, 10)
}

// lockedMemory bounds BPF maps on kernels before 5.11.
func (f Facts) lockedMemory() Finding {
	x := Finding{ID: "locked_memory", Title: "locked memory"}
	if f.LockedMemory == nil {
		x.Severity, x.Evidence = Notice, f.why("locked_memory_bytes")
		return x
	}
	const enough = 64 << 20
	x.Evidence = "at most " + limitText(f.LockedMemory.Soft) + " bytes"
	if f.LockedMemory.Soft < enough {
		x.Severity = Notice
		x.Why = "kernel probes keep their data in locked memory before Linux 5.11"
		x.Remedy = &Remedy{Text: "LimitMEMLOCK=infinity in the unit"}
	}
	return x
}

func (f Facts) processors() Finding {
	usable := f.CPU.Usable()
	x := Finding{ID: "processors", Title: "processors", Evidence: fmt.Sprintf("%d usable of %d", usable, f.CPU.Online)}
	if f.CPU.QuotaCores > 0 {
		x.Evidence += fmt.Sprintf(", quota %.2g", f.CPU.QuotaCores)
	}
	x.Evidence += fmt.Sprintf(", GOMAXPROCS %d", f.GoMaxProcs)
	switch {
	case f.GoMaxProcs > usable:
		x.Severity = Notice
		x.Why = "more scheduler threads than processors take turns and cost wakeups"
		x.Remedy = &Remedy{Text: fmt.Sprintf("set FELIX_WORKER_THREADS to at most %d, or unset GOMAXPROCS", usable)}
	case usable < 2:
		x.Severity = Notice
		x.Why = "the broker shares its one processor with everything else on the host"
	}
	return x
}
