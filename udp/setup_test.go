package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"felix/platform"
)

func setupOf(p policy, opts options, local string, major int, cfg *Config) *setup {
	return &setup{
		cfg: cfg, policy: &p, opts: opts, local: netip.MustParseAddrPort(local),
		kernel: platform.KernelVersion{OS: "test", Major: major},
	}
}

// Don't-fragment on macOS: only the option of the socket's own family is set,
// and an IPv4 peer of a dual-stack socket is covered from Darwin 24 (macOS 15)
// on; before, the capability is off, so that MTU discovery stays off too.
func TestDontFragmentByFamilyAndVersion(t *testing.T) {
	for name, x := range map[string]struct {
		policy policy
		local  string
		only6  int
		major  int
		v4, v6 bool // options set
		active bool
	}{
		"darwin 23, dual stack":   {darwinPolicy, "[::]:1", 0, 23, false, true, false},
		"darwin 24, dual stack":   {darwinPolicy, "[::]:1", 0, 24, false, true, true},
		"darwin 23, IPv6 only":    {darwinPolicy, "[::]:1", 1, 23, false, true, true},
		"darwin 23, IPv6 address": {darwinPolicy, "[::1]:1", 0, 23, false, true, true},
		"darwin 23, IPv4":         {darwinPolicy, "0.0.0.0:1", 0, 23, true, false, true},
		"linux, dual stack":       {linuxPolicy, "[::]:1", 0, 6, true, true, true},
		"linux, IPv4":             {linuxPolicy, "127.0.0.1:1", 0, 6, true, false, true},
		"others, dual stack":      {plainPolicy, "[::]:1", 0, 14, false, true, false},
	} {
		opts := &fakeOptions{v: map[option]int{optOnlyV6: x.only6}}
		var notices []Notice
		s := setupOf(x.policy, opts, x.local, x.major, &Config{Notice: func(n Notice) { notices = append(notices, n) }})
		if err := s.features(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if opts.wasSet(optDontFragment4) != x.v4 || opts.wasSet(optDontFragment6) != x.v6 {
			t.Errorf("%s: set %v", name, opts.log)
		}
		f := s.caps.DontFragment
		if f.Active != x.active || f.Active == (f.Reason != "") {
			t.Errorf("%s: %+v", name, f)
		}
		if len(notices) != 0 {
			t.Errorf("%s: notices %+v", name, notices)
		}
	}
}

// A refused option is a line for the log, not the end.
func TestRefusedOptionIsANotice(t *testing.T) {
	opts := &fakeOptions{fail: map[option]error{optDontFragment6: syscall.EINVAL}}
	var notices []Notice
	s := setupOf(darwinPolicy, opts, "[::]:1", 24, &Config{Notice: func(n Notice) { notices = append(notices, n) }})
	if err := s.features(); err != nil {
		t.Fatal(err)
	}
	if s.caps.DontFragment.Active || len(notices) != 1 || notices[0].Kind != OptionRefused || notices[0].Errno != syscall.EINVAL {
		t.Fatalf("%+v, %+v", s.caps.DontFragment, notices)
	}
}

// A feature that is switched on must be there; auto does without.
func TestSwitchOnWithoutTheFeature(t *testing.T) {
	missing := errors.Join(platform.ErrNotSupported, syscall.ENOPROTOOPT)
	for _, x := range []struct {
		name string
		opt  option
		set  func(*Config)
		get  func(*Capabilities) Feature
	}{
		{"gso", optSegment, func(c *Config) { c.GSO = On }, func(c *Capabilities) Feature { return c.GSO }},
		{"gro", optCoalesce, func(c *Config) { c.GRO = On }, func(c *Capabilities) Feature { return c.GRO }},
		{"ecn", optTClass, func(c *Config) { c.ECN = On }, func(c *Capabilities) Feature { return c.ECN }},
		{"don't-fragment", optDontFragment6, func(c *Config) { c.DontFragment = On }, func(c *Capabilities) Feature { return c.DontFragment }},
	} {
		opts := &fakeOptions{fail: map[option]error{x.opt: missing}}
		cfg := Config{}
		s := setupOf(linuxPolicy, opts, "[::1]:1", 6, &cfg)
		if err := s.features(); err != nil {
			t.Fatalf("%s auto: %v", x.name, err)
		}
		if f := x.get(&s.caps); f.Active || f.Reason == "" {
			t.Errorf("%s auto: %+v", x.name, f)
		}
		x.set(&cfg)
		err := setupOf(linuxPolicy, opts, "[::1]:1", 6, &cfg).features()
		var sw *SwitchError
		if !errors.As(err, &sw) || sw.Feature != x.name || !errors.Is(err, platform.ErrNotSupported) {
			t.Errorf("%s on: %v", x.name, err)
		}
	}
}

// A feature that is switched off is not even tried.
func TestSwitchOffLeavesTheSocketAlone(t *testing.T) {
	opts := &fakeOptions{}
	cfg := Config{GSO: Off, GRO: Off, SendMMsg: Off, RecvMMsg: Off, ECN: Off, DontFragment: Off}
	s := setupOf(linuxPolicy, opts, "[::1]:1", 6, &cfg)
	if err := s.features(); err != nil {
		t.Fatal(err)
	}
	for _, o := range []option{optCoalesce, optTOS, optTClass, optDontFragment4, optDontFragment6} {
		if opts.wasSet(o) {
			t.Errorf("option %d was set", o)
		}
	}
	for name, f := range map[string]Feature{"gso": s.caps.GSO, "gro": s.caps.GRO, "sendmmsg": s.caps.SendMMsg, "recvmmsg": s.caps.RecvMMsg, "ecn": s.caps.ECN} {
		if f.Active || f.Reason != switchedOff {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if s.caps.MaxSegments != 1 {
		t.Errorf("%d segments without segmentation", s.caps.MaxSegments)
	}
}

func TestApplyEnv(t *testing.T) {
	env := map[string]string{
		"FELIX_UDP_GSO": "off", "FELIX_UDP_GRO": "on", "FELIX_UDP_SENDMMSG": "auto",
		"FELIX_UDP_RECVMMSG": "off", "FELIX_UDP_ECN": "on",
	}
	lookup := func(k string) (string, bool) { v, ok := env[k]; return v, ok }
	c := Config{SendMMsg: Off, ReadBuffer: 5}
	if err := c.ApplyEnv(lookup); err != nil {
		t.Fatal(err)
	}
	if c.GSO != Off || c.GRO != On || c.SendMMsg != Auto || c.RecvMMsg != Off || c.ECN != On || c.ReadBuffer != 5 {
		t.Errorf("%+v", c)
	}
	for _, bad := range []string{"", "ON", "1", "true", " on"} {
		env["FELIX_UDP_ECN"] = bad
		c := Config{GSO: On}
		err := c.ApplyEnv(lookup)
		if err == nil || !strings.Contains(err.Error(), "FELIX_UDP_ECN") || !strings.Contains(err.Error(), "auto, on or off") {
			t.Errorf("%q: %v", bad, err)
		}
		if c.GSO != On || c.GRO != Auto {
			t.Errorf("%q: the configuration changed to %+v", bad, c)
		}
	}
}

func TestSwitchText(t *testing.T) {
	for _, s := range []Switch{Auto, On, Off} {
		b, err := s.MarshalText()
		var back Switch = 9
		if err != nil || back.UnmarshalText(b) != nil || back != s {
			t.Errorf("%v: %s, %v, %v", s, b, err, back)
		}
	}
	s := On
	if err := s.UnmarshalText([]byte("yes")); err == nil || s != On {
		t.Errorf("%v, %v", s, err)
	}
}

// Each counter has a name of its own and one sentence.
func TestCounterTable(t *testing.T) {
	seen := map[string]bool{}
	n := 0
	for c := range Counters() {
		n++
		name, doc := c.Name(), c.Doc()
		if name == "" || seen[name] || strings.ToLower(name) != name || strings.ContainsAny(name, " -") {
			t.Errorf("counter %d is called %q", c, name)
		}
		if !strings.HasSuffix(doc, ".") || strings.Count(doc, ". ") != 0 {
			t.Errorf("%s: %q is not one sentence", name, doc)
		}
		seen[name] = true
	}
	var s Stats
	if n != int(numCounters) || len(s.Map()) != n {
		t.Errorf("%d counters, %d in a snapshot", n, len(s.Map()))
	}
}

func TestStatsArithmetic(t *testing.T) {
	var c counters
	c.add(SentBytes, 10)
	c.add(ReceivedBytes, 3)
	first := c.snapshot()
	c.add(SentBytes, 5)
	c.add(RefusedEIO, 1)
	c.add(RefusedOther, 2)
	now := c.snapshot()
	d := now.Sub(first)
	wantCounters(t, d, map[Counter]uint64{SentBytes: 5, ReceivedBytes: 0, RefusedEIO: 1})
	sum := d.Add(first)
	if sum != now || now.Refusals() != 3 {
		t.Errorf("%v, %d refusals", sum.Map(), now.Refusals())
	}
}

// The table in the documentation is the one in the code.
func TestCounterTableInTheDocumentation(t *testing.T) {
	text, err := os.ReadFile("../docs/udp.md")
	if err != nil {
		t.Fatal(err)
	}
	for c := range Counters() {
		if row := fmt.Sprintf("| `%s` | %s |\n", c.Name(), c.Doc()); !strings.Contains(string(text), row) {
			t.Errorf("docs/udp.md lacks %s", row)
		}
	}
}
