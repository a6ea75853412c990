package hostcheck

import (
	"fmt"
	"strconv"
	"strings"

	"felix/platform"
	"felix/udp"
)

const (
	// largestPacket is the largest QUIC packet that works from the first one
	// on, in bytes: long headers carry a length of at most 16383, and 16336 is
	// what the loopback interface of macOS takes.
	largestPacket = 16336
	// guaranteedPackets is how many of the largest packets a socket buffer must
	// hold before connections over loopback start with them instead of
	// searching for the size.
	guaranteedPackets = 64
)

// packetsNeeded is the buffer size in bytes that this takes.
const packetsNeeded = largestPacket * guaranteedPackets

func bufferRules(f Facts) []Finding {
	if f.Socket == nil {
		return []Finding{{
			ID: "socket", Title: "UDP socket", Severity: Unsafe,
			Evidence: f.why("socket"),
			Why:      "a broker cannot open its socket on this host either",
			Remedy:   &Remedy{Text: "check the FELIX_UDP_... variables, the loopback interface and the limit of open files"},
		}}
	}
	g := f.Socket.Granted
	return []Finding{
		f.bufferRule("read_buffer", "receive buffer", g.Read),
		f.bufferRule("write_buffer", "send buffer", g.Write),
		f.loopbackPackets(g),
		f.udpMemory(g.Read),
	}
}

func kib(n int) string { return strconv.Itoa(n>>10) + " KiB" }

// bufferRule compares what was granted with what was asked for.
func (f Facts) bufferRule(id, title string, g udp.Grant) Finding {
	x := Finding{ID: id, Title: title, Evidence: fmt.Sprintf("asked for %s, granted %s", kib(g.Asked), kib(g.Granted))}
	switch {
	case g.Granted >= g.Asked && g.Forced:
		x.Evidence += ", beyond the host's limit by CAP_NET_ADMIN"
		return x
	case g.Granted >= g.Asked:
		return x
	case g.Granted == 0:
		x.Severity, x.Why = Notice, "the system does not tell what it granted"
		return x
	}
	x.Severity = CostsThroughput
	x.Why = "datagrams that arrive while the reader is busy overflow the buffer and are lost"
	if id == "write_buffer" {
		x.Why = "senders wait more often for room"
		if g.Granted >= packetsNeeded {
			x.Severity = Notice
		}
	}
	if g.Limit == "" {
		return x
	}
	x.Evidence += ", limited by " + g.Limit
	if g.LimitBytes > 0 {
		x.Evidence += "=" + strconv.Itoa(g.LimitBytes)
	}
	x.Remedy = f.bufferRemedy(g)
	return x
}

func (f Facts) bufferRemedy(g udp.Grant) *Remedy {
	want := g.Asked
	if g.Limit == "kern.ipc.maxsockbuf" {
		want += want / 8 // the limit includes the buffer's own bookkeeping
	}
	r := setting(g.Limit, strconv.Itoa(want))
	r.Text = "raise " + g.Limit
	if f.linux() {
		r.Text += ", or give the daemon CAP_NET_ADMIN, which may pass it"
	}
	if f.Kernel.OS == "darwin" {
		r.Text += "; macOS forgets it at a restart, so have a launch daemon run the command at boot"
	}
	if f.NetNamespace == platform.No {
		r.Text += "; it is a setting of the host: change it there, not in this container or namespace"
	}
	return r
}

// setting is the remedy of setting one kernel setting.
func setting(name, value string) *Remedy {
	arg := name + "=" + value
	if strings.Contains(value, " ") {
		arg = name + "='" + value + "'"
	}
	return &Remedy{
		Text:     "set " + name,
		Commands: []string{"sysctl -w " + arg},
		Settings: []Setting{{Name: name, Value: value}},
	}
}

// loopbackPackets tells whether connections over loopback may start with the
// largest packets.
func (f Facts) loopbackPackets(g udp.Buffers) Finding {
	smaller := min(g.Read.Granted, g.Write.Granted)
	x := Finding{
		ID: "loopback_packets", Title: "large packets over loopback",
		Evidence: fmt.Sprintf("the smaller buffer holds %d packets of %d bytes, %d are needed", smaller/largestPacket, largestPacket, guaranteedPackets),
	}
	if smaller >= packetsNeeded {
		return x
	}
	x.Severity = CostsThroughput
	x.Why = "connections over loopback start with packets of some 1200 bytes instead, a fraction of the throughput"
	for _, one := range []udp.Grant{g.Read, g.Write} {
		if one.Granted < packetsNeeded && one.Limit != "" {
			x.Remedy = &Remedy{Text: "raise the socket buffers to at least " + kib(packetsNeeded) + " (see above)"}
		}
	}
	return x
}

// udpMemory checks the limit on the memory of all UDP sockets together: one
// full receive buffer may hold twice its size with the kernel's bookkeeping.
func (f Facts) udpMemory(read udp.Grant) Finding {
	x := Finding{ID: "udp_memory", Title: "memory of all UDP sockets"}
	if len(f.UDPMemoryPages) != 3 || f.PageBytes == 0 {
		x.Evidence = "no such limit on this system"
		if f.linux() {
			x.Severity, x.Evidence = Notice, f.hostSetting("udp_memory_pages", "net.ipv4.udp_mem")
		}
		return x
	}
	const sockets = 4 // brokers, clients and tools with full buffers at the same time
	high := f.UDPMemoryPages[2] * int64(f.PageBytes)
	need := int64(sockets) * 2 * int64(read.Asked)
	x.Evidence = fmt.Sprintf("net.ipv4.udp_mem allows %d MiB", high>>20)
	if high >= need {
		return x
	}
	pages := need / int64(f.PageBytes)
	x.Severity = CostsThroughput
	x.Why = fmt.Sprintf("beyond it every UDP socket loses what arrives; %d full receive buffers of %s take %d MiB", sockets, kib(read.Asked), need>>20)
	x.Remedy = setting("net.ipv4.udp_mem", fmt.Sprintf("%d %d %d", pages/2, pages*3/4, pages))
	return x
}
