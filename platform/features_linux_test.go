package platform

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"felix/internal/testkit"
)

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	testkit.Eventually(t, 30*time.Second, what, cond)
}

func TestSegmentLimitDecision(t *testing.T) {
	yesF, noF, dunno := yes("yes"), no("no", unix.ENOPROTOOPT), unknown("?", unix.EMFILE)
	sys := func(e unix.Errno) error { return os.NewSyscallError("sendto", e) }
	for _, c := range []struct {
		name    string
		segment Feature
		err     error
		n       int
		want    Answer
	}{
		{"new kernel", yesF, nil, 128, Yes},
		{"old kernel", yesF, sys(unix.EINVAL), 64, Yes},
		{"loopback without checksums", yesF, sys(unix.EIO), 1, No},
		{"loopback is down", yesF, sys(unix.ENETUNREACH), 64, Unknown},
		{"out of descriptors", yesF, sys(unix.EMFILE), 64, Unknown},
		{"no option", noF, nil, 1, No},
		{"option unknown", dunno, nil, 64, Unknown},
	} {
		sent := 0
		n, f := probeSegmentLimit(c.segment, func(k int) error { sent = k; return c.err })
		if n != c.n || f.Answer != c.want {
			t.Errorf("%s: %d, %+v, want %d, %v", c.name, n, f, c.n, c.want)
		}
		if c.segment.Answer == Yes && sent != 65 {
			t.Errorf("%s: tried with %d segments, want 65", c.name, sent)
		}
	}
}

func TestJudge(t *testing.T) {
	for err, want := range map[error]Answer{
		unix.ENOPROTOOPT: No, unix.ENOSYS: No, unix.EOPNOTSUPP: No,
		unix.EMFILE: Unknown, unix.ENOMEM: Unknown, unix.EPERM: Unknown,
	} {
		if f := judge("x", err); f.Answer != want || !errors.Is(f.Err, err) {
			t.Errorf("%v: %+v, want %v", err, f, want)
		}
	}
}

// TestFeaturesOfThisKernel: a kernel that is new enough must have them.
func TestFeaturesOfThisKernel(t *testing.T) {
	k := Kernel()
	for _, c := range []struct {
		name         string
		major, minor int
		f            Feature
	}{
		{"UDP_SEGMENT", 4, 18, UDPSegment()},
		{"UDP_GRO", 5, 0, UDPGRO()},
		{"sendmmsg", 3, 0, SendMMsg()},
		{"recvmmsg", 2, 6, RecvMMsg()},
	} {
		if k.AtLeast(c.major, c.minor) && c.f.Answer != Yes {
			t.Errorf("%s on %v: %+v", c.name, k, c.f)
		}
	}
	n, f := UDPSegmentLimit()
	if k.AtLeast(6, 9) && (n != 128 || f.Answer != Yes) {
		t.Errorf("segment limit on %v: %d, %+v", k, n, f)
	}
	if n != 64 && n != 128 && n != 1 {
		t.Errorf("segment limit %d", n)
	}
}

func TestBufferForceIsARight(t *testing.T) {
	want := HasCapability(CapNetAdmin)
	if InitialUserNamespace() != Yes {
		testkit.Missing(t, "the initial user namespace")
	}
	if got := BufferForce(); got.Answer != want {
		t.Errorf("SO_RCVBUFFORCE %+v, CAP_NET_ADMIN %v", got, want)
	}
}

// TestNoDescriptorIsKept calls everything that opens a socket or a file.
func TestNoDescriptorIsKept(t *testing.T) {
	all := func() {
		onSocket("x", probeSegment)()
		onSocket("x", probeGRO)()
		onSocket("x", probeForce)()
		_ = sendSegments(65)
		_, _ = InterfaceOffloads("lo")
		_, _ = InterfaceOffloads("nosuchif0")
		_, _ = LoopbackMTU()
		_, _ = RouteTo(loopbackV4)
		_, _ = UDPSnmp()
		_, _ = Softnet()
		BPFFS()
		BTF()
		TraceFS()
		CPUs()
	}
	all() // whatever the runtime keeps for itself is open after this
	before := testkit.OpenDescriptors(t, 0)
	for range 20 {
		all()
	}
	if after := testkit.OpenDescriptors(t, 0); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func TestOffloadsParsing(t *testing.T) {
	names := make([]string, 40)
	names[0], names[3], names[33], names[39] = "tx-scatter-gather", OffloadUDPSegment, OffloadGRO, "loopback"
	refuse := uint32(0)
	ask := func(b []byte) error {
		if getU32(b, 0) == refuse {
			return unix.EOPNOTSUPP
		}
		switch getU32(b, 0) {
		case unix.ETHTOOL_GSSET_INFO:
			putU32(b, 16, uint32(len(names)))
		case unix.ETHTOOL_GSTRINGS:
			for i, n := range names {
				copy(b[12+32*i:], n)
			}
		case unix.ETHTOOL_GFEATURES:
			if getU32(b, 4) != 2 || len(b) != 8+2*16 {
				t.Errorf("asked for %d blocks in %d bytes", getU32(b, 4), len(b))
			}
			putU32(b, 8, 1<<0|1<<3)      // available: 0, 3
			putU32(b, 8+8, 1<<0)         // active: 0
			putU32(b, 8+16, 1<<1|1<<7)   // available: 33, 39
			putU32(b, 8+16+8, 1<<1|1<<7) // active: 33, 39
			putU32(b, 8+16+12, 1<<7)     // never changed: 39
		}
		return nil
	}
	got, err := readOffloads(ask)
	if err != nil {
		t.Fatal(err)
	}
	want := Offloads{
		"tx-scatter-gather": {Available: true, Active: true},
		OffloadUDPSegment:   {Available: true},
		OffloadGRO:          {Available: true, Active: true},
		"loopback":          {Available: true, Active: true, Fixed: true},
	}
	if len(got) != len(want) {
		t.Errorf("got %d switches, want %d", len(got), len(want))
	}
	for n, s := range want {
		if got[n] != s {
			t.Errorf("%s: %+v, want %+v", n, got[n], s)
		}
	}
	if got.Active(OffloadGRO) != Yes || got.Active(OffloadUDPSegment) != No || got.Active("none") != Unknown {
		t.Error("Active mixes up its answers")
	}
	for _, refuse = range []uint32{unix.ETHTOOL_GSSET_INFO, unix.ETHTOOL_GSTRINGS, unix.ETHTOOL_GFEATURES} {
		if _, err := readOffloads(ask); !errors.Is(err, unix.EOPNOTSUPP) {
			t.Errorf("command %#x refused: %v", refuse, err)
		}
	}
	names, refuse = nil, 0
	if _, err := readOffloads(ask); err == nil {
		t.Error("an interface without switches was accepted")
	}
}

func TestOffloadsOfLoopback(t *testing.T) {
	o, err := InterfaceOffloads("lo")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{OffloadGSO, OffloadGRO} {
		if o.Active(name) == Unknown {
			t.Errorf("lo does not tell %s", name)
		}
	}
	if _, err := InterfaceOffloads("nosuchif0"); !errors.Is(err, unix.ENODEV) {
		t.Errorf("no such interface: %v", err)
	}
	if _, err := InterfaceOffloads("a-name-that-is-too-long"); err == nil {
		t.Error("an impossible name was accepted")
	}
}
