//go:build amd64 || arm64

package bpf

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
)

// probe is one metric: what it loads and how its maps are read.
type probe struct {
	metric Metric
	// variants are tried in order until one attaches.
	variants []variant
	// maps that hold results, by name; these are pinned.
	maps []string
	// read fills the metric's part of the snapshot.
	read func(m map[string]*ebpf.Map, s *Snapshot) error
	// watch and unwatch keep the entry of a socket in the maps; nil if the
	// metric has none.
	watch   func(m map[string]*ebpf.Map, s Socket) error
	unwatch func(m map[string]*ebpf.Map, s Socket)
}

// variant is one way to attach a probe.
type variant struct {
	attachment Attachment
	limits     string
	programs   []string
	// scratch maps are needed beside those of the probe, and not pinned.
	scratch []string
	// set gives values to variables of the object.
	set map[string]any
}

// probes are in the order of [Metrics].
var probes = []*probe{wakeupsProbe, cpuTimeProbe, sendsProbe, receivesProbe, groProbe, dropsProbe}

// attachment is an attached probe.
type attachment struct {
	*probe
	variant    *variant
	collection *ebpf.Collection
	links      []link.Link
	programs   []Program
	since      time.Time
}

// attach loads and attaches the first variant that the kernel takes. The reason
// is that of the first one that was tried: the later ones are second choice.
func (l *loader) attach(p *probe) (*attachment, *Reason) {
	if l.reason != nil {
		return nil, l.reason
	}
	var first *Reason
	for i := min(l.first, len(p.variants)-1); i < len(p.variants); i++ {
		a, reason := l.try(p, &p.variants[i])
		if reason == nil {
			return a, nil
		}
		if first == nil {
			first = reason
		}
	}
	return nil, first
}

func (l *loader) try(p *probe, v *variant) (*attachment, *Reason) {
	if missing := l.missing(v); len(missing) > 0 {
		return nil, noTracepoint(missing)
	}
	a, err := l.load(p, v)
	if err != nil {
		return nil, explain(err, v)
	}
	return a, nil
}

func (l *loader) load(p *probe, v *variant) (*attachment, error) {
	spec := l.spec.Copy()
	for name := range spec.Programs {
		if !slices.Contains(v.programs, name) {
			delete(spec.Programs, name)
		}
	}
	for name := range spec.Maps {
		if strings.HasPrefix(name, mapPrefix) && !slices.Contains(p.maps, name) && !slices.Contains(v.scratch, name) {
			delete(spec.Maps, name)
		}
	}
	for name, value := range v.set {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, err
		}
	}
	if err := inlineVariables(spec); err != nil {
		return nil, err
	}
	c, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: l.types})
	if err != nil {
		return nil, err
	}
	a := &attachment{probe: p, variant: v, collection: c, since: time.Now()}
	for _, name := range v.programs {
		k, err := link.AttachTracing(link.TracingOptions{Program: c.Programs[name]})
		if err != nil {
			a.close()
			return nil, err
		}
		a.links = append(a.links, k)
		a.programs = append(a.programs, program(name, c.Programs[name]))
	}
	return a, nil
}

// inlineVariables writes the values of variables into the maps that hold them,
// and forgets the variables. The library would map the memory of those that are
// loaded, and keep the maps beyond Close until the collector runs.
func inlineVariables(spec *ebpf.CollectionSpec) error {
	for name, v := range spec.Variables {
		m := spec.Maps[v.SectionName]
		if m == nil || len(m.Contents) != 1 {
			return fmt.Errorf("variable %s: section %s has no contents", name, v.SectionName)
		}
		data, ok := m.Contents[0].Value.([]byte)
		if !ok || int(v.Offset)+len(v.Value) > len(data) {
			return fmt.Errorf("variable %s: not inside section %s", name, v.SectionName)
		}
		data = slices.Clone(data) // the copies of a spec share it
		copy(data[v.Offset:], v.Value)
		m.Contents = []ebpf.MapKV{{Key: m.Contents[0].Key, Value: data}}
	}
	clear(spec.Variables)
	return nil
}

// missing returns the tracepoints of a variant that the kernel's types lack.
func (l *loader) missing(v *variant) []string {
	var out []string
	for _, name := range v.programs {
		tracepoint := l.spec.Programs[name].AttachTo
		var t *btf.Typedef
		if err := l.kernel.TypeByName("btf_trace_"+tracepoint, &t); err != nil {
			out = append(out, tracepoint)
		}
	}
	return out
}

// maps returns the result maps by name.
func (a *attachment) maps() map[string]*ebpf.Map {
	out := make(map[string]*ebpf.Map, len(a.probe.maps))
	for _, name := range a.probe.maps {
		out[name] = a.collection.Maps[name]
	}
	return out
}

// close detaches first, so that no program runs without its maps.
func (a *attachment) close() {
	for _, k := range a.links {
		_ = k.Close() // releases the descriptor; nothing is left to do if it fails
	}
	a.links = nil
	a.collection.Close()
}

func (a *attachment) watch(s Socket) error {
	if a.probe.watch == nil {
		return nil
	}
	return a.probe.watch(a.collection.Maps, s)
}

func (a *attachment) unwatch(s Socket) {
	if a.probe.unwatch != nil {
		a.probe.unwatch(a.collection.Maps, s)
	}
}

func (a *attachment) status() MetricStatus {
	return MetricStatus{
		Metric: a.metric, On: true, Attachment: a.variant.attachment,
		Limits: a.variant.limits, Programs: slices.Clone(a.programs), Since: a.since,
	}
}

func (a *attachment) costs() []ProgramCost {
	out := make([]ProgramCost, 0, len(a.programs))
	for _, p := range a.programs {
		c := ProgramCost{Metric: a.metric, Program: p}
		if st, err := a.collection.Programs[p.Name].Stats(); err == nil { // before Linux 5.8 there are none
			c.Runs, c.Time, c.Misses = st.RunCount, st.Runtime, st.RecursionMisses
		}
		out = append(out, c)
	}
	return out
}

// program asks for a program's id, which takes some time: once is enough.
func program(name string, p *ebpf.Program) Program {
	out := Program{Name: name}
	if info, err := p.Info(); err == nil {
		if id, ok := info.ID(); ok {
			out.ID = uint32(id)
		}
	}
	return out
}
