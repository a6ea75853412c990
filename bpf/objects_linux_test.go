//go:build amd64 || arm64

package bpf

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

var objectFiles = []string{"probes_x86_bpfel.o", "probes_arm64_bpfel.o"}

// The objects of both processors have the same programs, and maps of the same
// layout, which is the one that Go reads.
func TestObjectsOfBothProcessorsAgree(t *testing.T) {
	sizes := map[string][2]uintptr{
		objectsMapFelixWakeups:  {unsafe.Sizeof(objectsWakeupKey{}), unsafe.Sizeof(objectsWakeupCount{})},
		objectsMapFelixCpu:      {4, unsafe.Sizeof(objectsCpuTime{})},
		objectsMapFelixThreads:  {4, unsafe.Sizeof(objectsThread{})},
		objectsMapFelixSends:    {4, unsafe.Sizeof(objectsSends{})},
		objectsMapFelixRefused:  {unsafe.Sizeof(objectsRefusalKey{}), unsafe.Sizeof(objectsRefusal{})},
		objectsMapFelixPeers:    {unsafe.Sizeof(objectsPeerKey{}), unsafe.Sizeof(objectsPeerRefusal{})},
		objectsMapFelixReceives: {8, unsafe.Sizeof(objectsReceives{})},
		objectsMapFelixGro:      {4, unsafe.Sizeof(objectsGro{})},
		objectsMapFelixDrops:    {8, unsafe.Sizeof(objectsDrops{})},
		objectsMapFelixSendmmsg: {4, unsafe.Sizeof(objectsSendBatch{})},
	}
	var names [2][]string
	for i, file := range objectFiles {
		spec, err := ebpf.LoadCollectionSpec(file)
		if err != nil {
			t.Fatal(err)
		}
		for name, m := range spec.Maps {
			if !strings.HasPrefix(name, mapPrefix) {
				continue
			}
			want, ok := sizes[name]
			if !ok || uintptr(m.KeySize) != want[0] || uintptr(m.ValueSize) != want[1] {
				t.Errorf("%s: map %s has %d and %d bytes, want %v", file, name, m.KeySize, m.ValueSize, want)
			}
			if len(name) > 15 {
				t.Errorf("%s: map name %s is cut off by the kernel", file, name)
			}
			if m.Key == nil || m.Value == nil {
				t.Errorf("%s: map %s has no types for bpftool", file, name)
			}
			names[i] = append(names[i], name)
		}
		for name, p := range spec.Programs {
			if len(name) > 15 {
				t.Errorf("%s: program name %s is cut off by the kernel", file, name)
			}
			names[i] = append(names[i], name+" "+p.SectionName)
		}
		slices.Sort(names[i])
	}
	if !slices.Equal(names[0], names[1]) {
		t.Errorf("the objects differ:\n%v\n%v", names[0], names[1])
	}
}

// The names that Go gives to the values of C enums are in their order.
func TestEnumsHaveOurNames(t *testing.T) {
	spec, err := ebpf.LoadCollectionSpec(objectFiles[0])
	if err != nil {
		t.Fatal(err)
	}
	for enum, n := range map[string]int{"sleep_cause": len(causes), "waker": len(wakers), "send_call": len(sendCalls)} {
		var e *btf.Enum
		if err := spec.Types.TypeByName(enum, &e); err != nil {
			t.Fatal(err)
		}
		if len(e.Values) != n {
			t.Errorf("enum %s has %d values, Go names %d", enum, len(e.Values), n)
		}
		for i, v := range e.Values {
			_, word, _ := strings.Cut(strings.ToLower(v.Name), "_")
			var got string
			switch enum {
			case "sleep_cause":
				got = string(causes[i])
			case "waker":
				got = string(wakers[i])
			case "send_call":
				got = sendCalls[i]
			}
			if v.Value != uint64(i) || got != word {
				t.Errorf("%s is %d, called %q", v.Name, v.Value, got)
			}
		}
	}
}

// What is committed does not depend on where it was built.
func TestObjectsNameNoMachine(t *testing.T) {
	absolute := regexp.MustCompile(`(^|[^.\w])/(usr|home|tmp|var|build|opt|src)[/\w]*|clang version`)
	for _, file := range objectFiles {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for part := range bytes.SplitSeq(text, []byte{0}) {
			if m := absolute.Find(part); m != nil {
				t.Errorf("%s holds %q", file, m)
			}
		}
	}
}
