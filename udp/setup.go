package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"felix/platform"
)

// Feature tells whether a socket uses an optional feature, and if not, why.
type Feature struct {
	Active bool   `json:"active"`
	Reason string `json:"reason,omitempty"`
}

// Capabilities tell which features a socket uses now.
type Capabilities struct {
	GSO          Feature `json:"gso"`
	GRO          Feature `json:"gro"`
	SendMMsg     Feature `json:"sendmmsg"`
	RecvMMsg     Feature `json:"recvmmsg"`
	ECN          Feature `json:"ecn"`
	DontFragment Feature `json:"dont_fragment"`
	PacketInfo   Feature `json:"packet_info"`
	// MaxSegments is the most datagrams of one segmented send, 1 without GSO.
	MaxSegments int `json:"max_segments"`
	// DualStack: the socket serves IPv4 as v4-mapped IPv6 addresses.
	DualStack bool `json:"dual_stack"`
}

const switchedOff = "switched off"

// setup is the preparation of one socket.
type setup struct {
	cfg    *Config
	policy *policy
	opts   options
	local  netip.AddrPort
	kernel platform.KernelVersion
	caps   Capabilities
}

// features prepares every optional feature. With a switch on that the host
// lacks it returns a *SwitchError.
func (s *setup) features() error {
	if s.v6() {
		only, err := s.opts.get(optOnlyV6)
		s.caps.DualStack = err == nil && only == 0 && s.local.Addr().IsUnspecified()
	}
	for _, f := range [...]struct {
		name string
		want Switch
		into *Feature
		try  func() error
	}{
		{"gso", s.cfg.GSO, &s.caps.GSO, s.tryGSO},
		{"gro", s.cfg.GRO, &s.caps.GRO, func() error { return enable(s.opts, optCoalesce) }},
		{"sendmmsg", s.cfg.SendMMsg, &s.caps.SendMMsg, trySendMMsg},
		{"recvmmsg", s.cfg.RecvMMsg, &s.caps.RecvMMsg, tryRecvMMsg},
		{"ecn", s.cfg.ECN, &s.caps.ECN, s.tryECN},
		{"don't-fragment", s.cfg.DontFragment, &s.caps.DontFragment, s.tryDontFragment},
	} {
		feature, err := try(f.want, f.try)
		if err != nil && f.want == On {
			return &SwitchError{Feature: f.name, Reason: feature.Reason}
		}
		if err != nil && !errors.Is(err, platform.ErrNotSupported) {
			s.cfg.noticeOption(f.name, err)
		}
		*f.into = feature
	}
	s.caps.PacketInfo, _ = try(Auto, s.tryPacketInfo) // what the caller sees of a failure is the reason
	_ = enable(s.opts, optOverflow)                   // without it the count of drops is read at each Stats
	s.caps.MaxSegments = s.maxSegments()
	return nil
}

// try runs one attempt under its switch.
func try(want Switch, attempt func() error) (Feature, error) {
	if want == Off {
		return Feature{Reason: switchedOff}, nil
	}
	if err := attempt(); err != nil {
		return Feature{Reason: err.Error()}, err
	}
	return Feature{Active: true}, nil
}

func (s *setup) v6() bool { return !s.local.Addr().Is4() }

// tryGSO: a socket that knows the option can read it.
func (s *setup) tryGSO() error {
	_, err := s.opts.get(optSegment)
	return err
}

func (s *setup) maxSegments() int {
	if !s.caps.GSO.Active {
		return 1
	}
	n, _ := platform.UDPSegmentLimit() // the safe figure when it could not tell
	return max(n, 2)
}

// tryECN asks for the ECN bits of each family that the socket serves.
func (s *setup) tryECN() error { return s.perFamily(optTOS, optTClass) }

// tryPacketInfo asks for the address that a datagram was sent to; only a socket
// bound to no address in particular needs it.
func (s *setup) tryPacketInfo() error {
	if !s.local.Addr().IsUnspecified() {
		return errors.New("bound to one address")
	}
	return s.perFamily(optPacketInfo4, optPacketInfo6)
}

// perFamily switches on the option of the socket's family, and on an IPv6
// socket that serves IPv4 the IPv4 one too where that is how the system does it.
func (s *setup) perFamily(v4, v6 option) error {
	if !s.v6() {
		return enable(s.opts, v4)
	}
	if s.policy.bothFamilies {
		if err := enable(s.opts, v4); err != nil {
			return err
		}
	}
	return enable(s.opts, v6)
}

// tryDontFragment sets the option of the socket's family. On an IPv6 socket
// that serves IPv4 some systems have no way to cover both; path MTU discovery
// must then stay off for it.
func (s *setup) tryDontFragment() error {
	if err := s.perFamily(optDontFragment4, optDontFragment6); err != nil {
		return err
	}
	if !s.caps.DualStack || s.policy.bothFamilies {
		return nil
	}
	if since := s.policy.dualDontFragment; since != 0 && s.kernel.Major >= since {
		return nil
	}
	return fmt.Errorf("IPv4 on a dual-stack socket can be fragmented on %v: %w", s.kernel, platform.ErrNotSupported)
}

// localAddr returns the address a socket is bound to, a v4-mapped one as IPv6.
func localAddr(c *net.UDPConn) (netip.AddrPort, error) {
	a, ok := c.LocalAddr().(*net.UDPAddr)
	if !ok {
		return netip.AddrPort{}, ErrAddress
	}
	addr, ok := netip.AddrFromSlice(a.IP)
	if !ok {
		return netip.AddrPort{}, ErrAddress
	}
	return netip.AddrPortFrom(addr, uint16(a.Port)), nil
}
