package platform

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// fakeRoot makes a directory with the given files and returns it as a host.
func fakeRoot(t *testing.T, files map[string]string) hostRoot {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return hostRoot(dir)
}

func TestSysctlFiles(t *testing.T) {
	r := fakeRoot(t, map[string]string{
		"proc/sys/net/core/rmem_max": "212992\n",
		"proc/sys/net/ipv4/udp_mem":  "1\t2\t3\n",
		"proc/secret":                "no\n",
	})
	for name, want := range map[string]string{"net.core.rmem_max": "212992", "net.ipv4.udp_mem": "1\t2\t3"} {
		if got, err := r.sysctl(name); err != nil || got != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := r.sysctl("net.core.nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing setting: %v", err)
	}
	for _, bad := range []string{"", "../secret", "..secret", "net/core/rmem_max"} {
		if got, err := r.sysctl(bad); err == nil {
			t.Errorf("%q was read: %q", bad, got)
		}
	}
	if _, err := SysctlInt("net.ipv4.udp_mem"); err == nil {
		t.Error("three numbers were taken for one")
	}
	if v, err := SysctlInts("net.ipv4.udp_mem"); err != nil || len(v) != 3 {
		t.Errorf("udp_mem of this host: %v, %v", v, err)
	}
	if l, err := ReadBufferLimit(); err != nil || l.Bytes < 2048 {
		t.Errorf("receive buffer limit of this host: %+v, %v", l, err)
	}
}

const snmpText = `Ip: Forwarding DefaultTTL
Ip: 1 64
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
Udp: 98 1 20 99 3 4 5 6 7
UdpLite: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
UdpLite: 1000 1000 1000 1000 1000 1000 1000 1000 1000
`

const snmp6Text = `Ip6InReceives                   	12
Udp6InDatagrams                 	11
Udp6NoPorts                     	0
Udp6OutDatagrams                	13
Udp6RcvbufErrors                	18446744073709551615
UdpLite6InDatagrams             	5000
`

func TestSnmpFiles(t *testing.T) {
	r := fakeRoot(t, map[string]string{"proc/thread-self/net/snmp": snmpText, "proc/thread-self/net/snmp6": snmp6Text})
	got, err := r.udpStats()
	if err != nil {
		t.Fatal(err)
	}
	want := UDPStats{
		V4: UDPCounters{InDatagrams: 98, NoPorts: 1, InErrors: 20, OutDatagrams: 99, RcvbufErrors: 3, SndbufErrors: 4, InCsumErrors: 5, MemErrors: 7},
		V6: UDPCounters{InDatagrams: 11, OutDatagrams: 13, RcvbufErrors: ^uint64(0)},
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestSnmpWithoutIPv6(t *testing.T) {
	r := fakeRoot(t, map[string]string{"proc/thread-self/net/snmp": snmpText})
	got, err := r.udpStats()
	if err != nil || got.V4.InDatagrams != 98 || got.V6 != (UDPCounters{}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestSnmpMalformed(t *testing.T) {
	for _, text := range []string{
		"", "Udp: InDatagrams\n", "Udp: InDatagrams NoPorts\nUdp: 1\n", "Udp: InDatagrams\nUdp: many\n",
	} {
		if _, err := parseSnmp(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
	for _, text := range []string{"Udp6InDatagrams\n", "Udp6InDatagrams x\n", "Udp6InDatagrams 1 2\n"} {
		if _, err := parseSnmp6(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
	if _, err := (fakeRoot(t, nil)).udpStats(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no /proc: %v", err)
	}
}

func TestSoftnetSumsCPUs(t *testing.T) {
	got, err := parseSoftnet("0000000a 00000001 00000002 0 0\nffffffff 00000003 00000004 0 0\n")
	want := SoftnetStats{Processed: 0x100000009, Dropped: 4, Squeezed: 6}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if d := (SoftnetStats{Processed: 5, Dropped: 1}).Sub(SoftnetStats{Processed: 3, Dropped: 2}); d.Processed != 2 || d.Dropped != 0 {
		t.Errorf("difference %+v", d)
	}
	for _, bad := range []string{"", "1 2\n", "zz 0 0\n"} {
		if _, err := parseSoftnet(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	if s, err := Softnet(); err != nil || s.Processed == 0 {
		t.Errorf("this host: %+v, %v", s, err)
	}
}

func TestKernelFileSystems(t *testing.T) {
	// A temporary directory is of neither file system.
	r := fakeRoot(t, map[string]string{"sys/fs/bpf/x": "", "sys/kernel/tracing/events/sched/x": ""})
	if f := r.mounted("sys/fs/bpf", "bpffs", 0xcafe4a11); f.Answer != No {
		t.Errorf("an ordinary directory is bpffs: %+v", f)
	}
	if f := r.readableMount("sys/kernel/tracing"); f.Answer != No {
		t.Errorf("an ordinary directory is tracefs: %+v", f)
	}
	if f := r.mounted("sys/fs/none", "bpffs", 0xcafe4a11); f.Answer != No || !errors.Is(f.Err, fs.ErrNotExist) {
		t.Errorf("a missing directory: %+v", f)
	}
}

func TestBTFFile(t *testing.T) {
	const path = "sys/kernel/btf/vmlinux"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  Answer
	}{
		{"absent", nil, No},
		{"empty", map[string]string{path: ""}, No},
		{"text", map[string]string{path: "hello"}, No},
		{"little endian", map[string]string{path: "\x9f\xeb\x01\x00"}, Yes},
		{"big endian", map[string]string{path: "\xeb\x9f\x01\x00"}, Yes},
	} {
		if got := fakeRoot(t, c.files).btf(); got.Answer != c.want {
			t.Errorf("%s: %+v, want %v", c.name, got, c.want)
		}
	}
}
