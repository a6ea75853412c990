package hostcheck

import (
	"fmt"

	"felix/platform"
	"felix/udp"
)

// engineRules judge how datagrams are handed to the kernel and taken from it.
func engineRules(f Facts) []Finding {
	var caps udp.Capabilities
	if f.Socket != nil {
		caps = f.Socket.Capabilities
	}
	return []Finding{
		f.segmentation(caps),
		f.engineRule("coalesced_receives", "coalesced receives (UDP_GRO)", "FELIX_UDP_GRO", f.CoalescedReceives, caps.GRO,
			"every datagram received costs a copy of its own through the kernel", "Linux 5.0"),
		f.engineRule("batched_sends", "batched sends (sendmmsg)", "FELIX_UDP_SENDMMSG", f.BatchedSends, caps.SendMMsg,
			"every message sent costs a system call", "Linux 3.0"),
		f.engineRule("batched_receives", "batched receives (recvmmsg)", "FELIX_UDP_RECVMMSG", f.BatchedReceives, caps.RecvMMsg,
			"every message received costs a system call", "Linux 2.6.33"),
	}
}

func (f Facts) segmentation(caps udp.Capabilities) Finding {
	x := f.engineRule("segmented_sends", "segmented sends (UDP_SEGMENT)", "FELIX_UDP_GSO", f.SegmentedSends, caps.GSO,
		"every datagram sent costs a pass of its own through the kernel", "Linux 4.18")
	if x.Severity == OK && f.SegmentLimit > 1 {
		x.Evidence += fmt.Sprintf(", up to %d datagrams a send", f.SegmentLimit)
	}
	return x
}

// engineRule judges one feature: what the kernel offers, and what the socket
// makes of it.
func (f Facts) engineRule(id, title, env string, kernel platform.Feature, socket udp.Feature, why, since string) Finding {
	x := Finding{ID: id, Title: title}
	switch {
	case socket.Active:
		x.Evidence = "in use"
	case f.Socket == nil:
		x.Severity, x.Evidence = Notice, "no socket to look at"
	case kernel.Answer == platform.Yes:
		x.Severity, x.Why = CostsThroughput, why
		x.Evidence = "the kernel has it, the socket does not use it: " + socket.Reason
		x.Remedy = &Remedy{Text: "unset " + env + " or set it to auto"}
	case !f.linux():
		x.Severity, x.Why = Notice, why
		x.Evidence = "not on this system"
	case kernel.Answer == platform.No:
		x.Severity, x.Why = CostsThroughput, why
		x.Evidence = reasonOf(kernel)
		x.Remedy = &Remedy{Text: "use a kernel that has it: " + since + " or newer"}
	default:
		x.Severity, x.Evidence = Notice, "could not tell: "+reasonOf(kernel)
	}
	return x
}
