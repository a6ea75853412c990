package hostcheck

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"

	"felix/platform"
	"felix/udp"
)

// Gather collects the facts of this host. The environment's FELIX_UDP_...
// variables apply to the socket it opens, as they do to the daemon's. Facts not reached before ctx
// ends stay unknown.
func Gather(ctx context.Context) Facts {
	f := Facts{
		Kernel:     platform.Kernel(),
		Arch:       runtime.GOARCH,
		CPU:        platform.CPUs(),
		GoMaxProcs: runtime.GOMAXPROCS(0),
		PageBytes:  os.Getpagesize(),
	}
	for _, step := range []func(*Facts){
		gatherSocket, gatherFeatures, gatherLinks, gatherSettings, gatherRights, gatherLimits,
	} {
		if err := ctx.Err(); err != nil {
			f.unknown("rest", err)
			return f
		}
		step(&f)
	}
	return f
}

func gatherSocket(f *Facts) {
	c, err := socketConfig()
	if err != nil {
		f.unknown("socket", err)
		return
	}
	conn, err := udp.Listen("udp4", "127.0.0.1:0", c)
	if err != nil {
		f.unknown("socket", err)
	} else {
		f.Socket = &SocketFacts{Granted: conn.Granted(), Capabilities: conn.Capabilities()}
		closeProbe(f, conn)
	}
	six, err := net.ListenPacket("udp6", "[::1]:0") //nolint:noctx // binding an address literal does not wait
	f.IPv6 = platform.AnswerOf(err == nil)
	if err != nil {
		f.unknown("ipv6", err)
		return
	}
	closeProbe(f, six)
}

// socketConfig is the default as the environment changes it. An empty variable
// counts as unset.
func socketConfig() (udp.Config, error) {
	var c udp.Config
	lookup := func(name string) (string, bool) {
		v := os.Getenv(name)
		return v, v != ""
	}
	if err := c.ApplyEnv(lookup); err != nil {
		return c, err
	}
	for name, into := range map[string]*int{"FELIX_UDP_RECV_BUFFER": &c.ReadBuffer, "FELIX_UDP_SEND_BUFFER": &c.WriteBuffer} {
		v, ok := lookup(name)
		if !ok {
			continue
		}
		n, err := strconv.Atoi(v)
		if err != nil || n <= 0 {
			return c, fmt.Errorf("environment variable %s: %q: want a number of bytes", name, v)
		}
		*into = n
	}
	return c, nil
}

// closeProbe closes a socket that was opened to look at it.
func closeProbe(f *Facts, c interface{ Close() error }) {
	if err := c.Close(); err != nil {
		f.unknown("close", err)
	}
}

func gatherFeatures(f *Facts) {
	f.SegmentedSends = platform.UDPSegment()
	f.CoalescedReceives = platform.UDPGRO()
	f.BatchedSends = platform.SendMMsg()
	f.BatchedReceives = platform.RecvMMsg()
	f.ForcedBuffers = platform.BufferForce()
	f.SegmentLimit, _ = platform.UDPSegmentLimit()
}

// documentation addresses (RFC 5737, RFC 3849): they follow the default route,
// and nothing is sent there.
var (
	anywhereV4 = netip.MustParseAddr("192.0.2.1")
	anywhereV6 = netip.MustParseAddr("2001:db8::1")
)

func gatherLinks(f *Facts) {
	gatherLoopback(f)
	for _, dst := range []netip.Addr{anywhereV4, anywhereV6} {
		r, err := platform.RouteTo(dst)
		if err != nil {
			f.unknown("uplink", err)
			continue
		}
		f.Uplink = &LinkFacts{Interface: r.Interface, InterfaceMTUBytes: r.InterfaceMTU, RouteMTUBytes: r.MTU, Up: true, V6: dst.Is6()}
		delete(f.Unknown, "uplink")
		f.offloads("uplink_offloads", f.Uplink)
		return
	}
}

func gatherLoopback(f *Facts) {
	name, err := platform.LoopbackName()
	if err != nil {
		f.unknown("loopback", err)
		return
	}
	mtu, err := platform.LoopbackMTU()
	if err != nil {
		f.unknown("loopback", err)
		return
	}
	f.Loopback = &LinkFacts{Interface: name, InterfaceMTUBytes: mtu, RouteMTUBytes: mtu}
	if f.Loopback.Up, err = platform.LoopbackUp(); err != nil {
		f.unknown("loopback_up", err)
	}
	f.offloads("loopback_offloads", f.Loopback)
}

// offloads reads those switches of a link that matter for UDP.
func (f *Facts) offloads(key string, l *LinkFacts) {
	all, err := platform.InterfaceOffloads(l.Interface)
	if err != nil {
		if !errors.Is(err, platform.ErrNotSupported) {
			f.unknown(key, err)
		}
		return
	}
	l.Offloads = platform.Offloads{}
	for _, name := range []string{platform.OffloadUDPSegment, platform.OffloadGSO, platform.OffloadGRO, platform.OffloadGROForward} {
		if s, ok := all[name]; ok {
			l.Offloads[name] = s
		}
	}
}

func gatherSettings(f *Facts) {
	var err error
	if f.linux() {
		if f.UDPMemoryPages, err = platform.SysctlInts("net.ipv4.udp_mem"); err != nil {
			f.unknown("udp_memory_pages", err)
		}
		if f.BacklogPackets, err = platform.SysctlInt("net.core.netdev_max_backlog"); err != nil {
			f.unknown("backlog_packets", err)
		}
	}
	if f.Counters, err = platform.UDPSnmp(); err != nil {
		f.unknown("udp_counters", err)
	}
	if f.Softnet, err = platform.Softnet(); err != nil {
		f.unknown("softnet", err)
	}
}

func gatherRights(f *Facts) {
	f.NetAdmin = platform.HasCapability(platform.CapNetAdmin)
	f.BPFRight = platform.HasCapability(platform.CapBPF)
	f.PerfmonRight = platform.HasCapability(platform.CapPerfmon)
	f.SysAdmin = platform.HasCapability(platform.CapSysAdmin)
	f.UserNamespace = platform.InitialUserNamespace()
	f.NetNamespace = platform.InitialNetNamespace()
	f.BTF = platform.BTF()
	f.BPFFS = platform.BPFFS()
	f.TraceFS = platform.TraceFS()
}

func gatherLimits(f *Facts) {
	if l, err := platform.OpenFileLimit(); err != nil {
		f.unknown("open_files", err)
	} else {
		f.OpenFiles = &l
	}
	if l, err := platform.LockedMemoryLimit(); err != nil {
		f.unknown("locked_memory_bytes", err)
	} else {
		f.LockedMemory = &l
	}
}
