package hostcheck

import (
	"fmt"

	"felix/platform"
)

// quicPayload is the least UDP payload that a path must carry for QUIC, in
// bytes (RFC 9000, section 14).
const quicPayload = 1200

func networkRules(f Facts) []Finding {
	out := []Finding{f.loopbackMTU()}
	if f.linux() {
		out = append(out, f.loopbackOffloads())
	}
	out = append(out, f.pathMTU())
	if f.linux() && f.Uplink != nil {
		out = append(out, f.uplinkOffloads())
	}
	out = append(out, f.ipv6())
	if f.linux() {
		out = append(out, f.backlog())
	}
	return append(out, f.pastDrops())
}

func (f Facts) loopbackMTU() Finding {
	x := Finding{ID: "loopback_mtu", Title: "MTU of loopback"}
	l := f.Loopback
	if l == nil || !l.Up {
		x.Severity, x.Evidence = Unsafe, f.why("loopback")
		if l != nil {
			x.Evidence = l.Interface + " is down"
		}
		x.Why = "nothing on this host can reach the broker over loopback"
		x.Remedy = &Remedy{Text: "bring the loopback interface up", Commands: []string{f.upCommand()}}
		return x
	}
	x.Evidence = fmt.Sprintf("%s: %d bytes", l.Interface, l.InterfaceMTUBytes)
	if platform.UDPPayload(l.InterfaceMTUBytes, true) >= largestPacket {
		return x
	}
	x.Severity = CostsThroughput
	x.Why = fmt.Sprintf("packets over loopback are smaller than the %d bytes that measure best", largestPacket)
	x.Remedy = &Remedy{Text: "set it to the system's default", Commands: []string{f.mtuCommand(l.Interface)}}
	return x
}

func (f Facts) upCommand() string {
	if f.linux() {
		return "ip link set lo up"
	}
	return "ifconfig lo0 up"
}

func (f Facts) mtuCommand(name string) string {
	if f.linux() {
		return "ip link set " + name + " mtu 65536"
	}
	return "ifconfig " + name + " mtu 16384"
}

// loopbackOffloads: segmented sends stay whole over loopback, and arrive in one
// piece, only while the interface claims to segment by itself.
func (f Facts) loopbackOffloads() Finding {
	x := Finding{ID: "loopback_offloads", Title: "offloads of loopback"}
	if f.Loopback == nil || f.Loopback.Offloads == nil {
		x.Severity, x.Evidence = Notice, f.why("loopback_offloads")
		return x
	}
	switch l := f.Loopback; l.Offloads.Active(platform.OffloadUDPSegment) {
	case platform.Yes:
		x.Evidence = l.Interface + ": " + platform.OffloadUDPSegment + " is on"
	case platform.No:
		x.Severity = CostsThroughput
		x.Evidence = l.Interface + ": " + platform.OffloadUDPSegment + " is off"
		x.Why = "segmented sends are cut up before loopback, so that receivers get single datagrams"
		x.Remedy = &Remedy{
			Text:     "switch it on",
			Commands: []string{"ethtool -K " + l.Interface + " " + platform.OffloadUDPSegment + " on"},
		}
	default:
		x.Severity, x.Evidence = Notice, l.Interface+" does not know "+platform.OffloadUDPSegment
	}
	return x
}

func (f Facts) pathMTU() Finding {
	x := Finding{ID: "path_mtu", Title: "MTU of the default route"}
	if f.Uplink == nil {
		x.Severity, x.Evidence = Notice, "no default route: "+f.why("uplink")
		x.Why = "only this host and directly attached networks can reach the broker"
		return x
	}
	l := f.Uplink
	payload := platform.UDPPayload(l.RouteMTUBytes, l.V6)
	x.Evidence = fmt.Sprintf("%s: %d bytes", l.Interface, l.RouteMTUBytes)
	if l.RouteMTUBytes != l.InterfaceMTUBytes {
		x.Evidence += fmt.Sprintf(" (the interface has %d)", l.InterfaceMTUBytes)
	}
	if payload >= quicPayload {
		x.Evidence += fmt.Sprintf(", packets of up to %d", payload)
		return x
	}
	x.Severity = Unsafe
	x.Why = fmt.Sprintf("QUIC needs packets of %d bytes, this route carries %d: no connection over it will succeed", quicPayload, payload)
	headers := platform.HeadersV4
	if l.V6 {
		headers = platform.HeadersV6
	}
	x.Remedy = &Remedy{
		Text:     "raise the MTU of the route or of its interface",
		Commands: []string{fmt.Sprintf("ip link set %s mtu %d", l.Interface, quicPayload+headers)},
	}
	return x
}

// uplinkOffloads: without the switches the kernel does the same in software,
// later than the application would.
func (f Facts) uplinkOffloads() Finding {
	l := f.Uplink
	x := Finding{ID: "uplink_offloads", Title: "offloads of " + l.Interface}
	if l.Offloads == nil {
		x.Severity, x.Evidence = Notice, f.why("uplink_offloads")
		return x
	}
	segment, gro := l.Offloads.Active(platform.OffloadUDPSegment), l.Offloads.Active(platform.OffloadGRO)
	x.Evidence = fmt.Sprintf("%s: %s, %s: %s", platform.OffloadUDPSegment, onOff(segment), platform.OffloadGRO, onOff(gro))
	if gro == platform.No {
		x.Severity = CostsThroughput
		x.Why = "the kernel merges nothing that arrives over this link, whatever sockets ask for"
		x.Remedy = &Remedy{Text: "switch receive offload on", Commands: []string{"ethtool -K " + l.Interface + " gro on"}}
		return x
	}
	if segment != platform.Yes {
		x.Severity = Notice
		x.Why = "the kernel cuts segmented sends up in software; correct, at some cost of CPU"
		if l.Offloads[platform.OffloadUDPSegment].Available {
			x.Remedy = &Remedy{
				Text:     "the device can do it: switch it on",
				Commands: []string{"ethtool -K " + l.Interface + " " + platform.OffloadUDPSegment + " on"},
			}
		}
	}
	return x
}

func onOff(a platform.Answer) string {
	switch a {
	case platform.Yes:
		return "on"
	case platform.No:
		return "off"
	default:
		return "unknown"
	}
}

func (f Facts) ipv6() Finding {
	x := Finding{ID: "ipv6", Title: "IPv6", Evidence: "a socket can be bound to ::1"}
	if f.IPv6 == platform.Yes {
		return x
	}
	x.Severity, x.Evidence = Notice, f.why("ipv6")
	x.Why = "a broker with an IPv6 address of its own ends at start; the wildcard address serves IPv4 only"
	x.Remedy = &Remedy{Text: "bind an IPv4 address or the wildcard, or switch IPv6 on"}
	if f.linux() {
		x.Remedy.Commands = []string{"sysctl -w net.ipv6.conf.all.disable_ipv6=0", "sysctl -w net.ipv6.conf.lo.disable_ipv6=0"}
	}
	return x
}

// hostSetting says why a setting of the host could not be read.
func (f Facts) hostSetting(key, name string) string {
	if f.NetNamespace == platform.No {
		return name + " is a setting of the host that this network namespace does not show"
	}
	return f.why(key)
}

// leastBacklog is the kernel's default of net.core.netdev_max_backlog, packets
// that may wait per CPU between a device and the stack.
const leastBacklog = 1000

func (f Facts) backlog() Finding {
	x := Finding{ID: "backlog", Title: "packets waiting per CPU"}
	if f.BacklogPackets == 0 {
		x.Severity, x.Evidence = Notice, f.hostSetting("backlog_packets", "net.core.netdev_max_backlog")
		return x
	}
	x.Evidence = fmt.Sprintf("net.core.netdev_max_backlog=%d, %d dropped since the host started", f.BacklogPackets, f.Softnet.Dropped)
	switch {
	case f.BacklogPackets < leastBacklog:
		x.Severity = CostsThroughput
		x.Why = "bursts are dropped before any protocol counts them"
		x.Remedy = setting("net.core.netdev_max_backlog", fmt.Sprint(leastBacklog))
	case f.Softnet.Dropped > 0:
		x.Severity = Notice
		x.Why = "a burst was longer than the backlog; such drops appear in no UDP counter"
		x.Remedy = setting("net.core.netdev_max_backlog", fmt.Sprint(4*f.BacklogPackets))
	}
	return x
}

func (f Facts) pastDrops() Finding {
	x := Finding{ID: "past_drops", Title: "datagrams lost so far"}
	if reason, missing := f.Unknown["udp_counters"]; missing {
		x.Severity, x.Evidence = Notice, reason
		return x
	}
	c := f.Counters.Total()
	x.Evidence = fmt.Sprintf("of %d received: %d by full receive buffers, %d by the memory limit; %d on sending",
		c.InDatagrams, c.RcvbufErrors, c.MemErrors, c.SndbufErrors)
	if c.RcvbufErrors+c.MemErrors+c.SndbufErrors > 0 {
		x.Severity = Notice
		x.Why = "counted for all programs since the host started; compare two readings to see whether it goes on"
	}
	return x
}
