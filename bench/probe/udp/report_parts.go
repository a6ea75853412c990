package udpprobe

import (
	"felix/platform"
	"felix/udp"
)

func settingsOf(o Options, r receiverResult) Settings {
	s := Settings{
		SegmentBytes:      o.Segment,
		AggregateBytes:    o.perWrite() * o.Segment,
		DatagramsPerWrite: o.perWrite(),
		WindowDatagrams:   o.window(r.Granted.Read.Granted),
		Family:            "ipv4",
		GSO:               o.GSO, GRO: o.GRO, MMsg: o.MMsg,
		Clamp:      !o.NoClamp,
		DurationMS: o.Duration.Milliseconds(),
	}
	if o.V6 {
		s.Family = "ipv6"
	}
	return s
}

func processOf(s side) Process {
	return Process{
		Granted: s.Granted, Capabilities: s.Capabilities, Counters: s.Stats,
		UserUS: s.Usage.User.Microseconds(), SystemUS: s.Usage.System.Microseconds(),
		Voluntary: s.Usage.Voluntary, Involuntary: s.Usage.Involuntary,
	}
}

func kernelOf(o Options, before, after counters) Kernel {
	var k Kernel
	if before.udp != nil && after.udp != nil {
		b, a := family(o, before.udp), family(o, after.udp)
		d := a.Sub(b)
		k.Before, k.After, k.Delta = &b, &a, &d
	}
	if before.softnet != nil && after.softnet != nil {
		d := after.softnet.Sub(*before.softnet)
		k.SoftnetDelta = &d
	}
	return k
}

// family picks the counters of the run's address family; a system that counts
// both together has them in V4.
func family(o Options, s *platform.UDPStats) platform.UDPCounters {
	if o.V6 && s.V6 != (platform.UDPCounters{}) {
		return s.V6
	}
	return s.V4
}

func linkOf() Link {
	l := Link{Offloads: map[string]string{}}
	name, err := platform.LoopbackName()
	if err != nil {
		return l
	}
	l.Interface = name
	if mtu, err := platform.LoopbackMTU(); err == nil {
		l.MTUBytes = mtu
	}
	o, err := platform.InterfaceOffloads(name)
	if err != nil {
		return l // the system has no such switches
	}
	for _, n := range []string{platform.OffloadUDPSegment, platform.OffloadGSO, platform.OffloadGRO} {
		switch o.Active(n) {
		case platform.Yes:
			l.Offloads[n] = "on"
		case platform.No:
			l.Offloads[n] = "off"
		case platform.Unknown: // the interface does not have it
		}
	}
	return l
}

func sendEngine(c udp.Capabilities) string {
	name := "sendmsg"
	if c.SendMMsg.Active {
		name = batchedSend
	}
	if c.GSO.Active {
		name += "+UDP_SEGMENT"
	}
	return name
}

func receiveEngine(c udp.Capabilities) string {
	name := "recvmsg"
	if c.RecvMMsg.Active {
		name = batchedReceive
	}
	if c.GRO.Active {
		name += "+UDP_GRO"
	}
	return name
}
