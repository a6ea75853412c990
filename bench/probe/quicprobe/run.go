package quicprobe

import (
	"context"
	"io"
	"os"
	"strconv"
	"strings"

	"felix/bench/probe"
	"felix/platform"
	"felix/transport"
)

// Run measures once. What is meaningless from the start gives a
// [*probe.InvalidMeasurement]. When ctx ends, or a process fails, all processes
// are killed. bar, if not nil, gets a progress bar.
func Run(ctx context.Context, o Options, l probe.Launcher, bar io.Writer) (Report, error) {
	o = o.stocked()
	engine := transport.Engine()
	if err := o.validate(engine); err != nil {
		return Report{}, err
	}
	l, notes, err := chooseProgram(o.Stock, engine.Tuned, l)
	if err != nil {
		return Report{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	before := kernelNow()
	members, err := measure(ctx, o, l, bar)
	if err != nil {
		return Report{}, err
	}
	r := newReport(o, members, kernelSince(o, before))
	r.Notes = append(r.Notes, notes...)
	return r, nil
}

// measure runs all processes from start to end.
func measure(ctx context.Context, o Options, l probe.Launcher, bar io.Writer) ([]*member, error) {
	draw, stop := showProgress(bar, o)
	defer stop()
	c := newCrew(l, environment(o), draw)
	defer c.disband()
	if err := c.assemble(ctx, o, draw != nil); err != nil {
		return nil, err
	}
	if err := sameBuild(c.members); err != nil {
		return nil, err
	}
	if err := c.tell(ctx, doStart); err != nil {
		return nil, err
	}
	if err := c.await(ctx, func(m *member) bool { return m.done != nil }); err != nil {
		return nil, err
	}
	if err := c.tell(ctx, doReport); err != nil {
		return nil, err
	}
	if err := c.await(ctx, func(m *member) bool { return m.ended }); err != nil {
		return nil, err
	}
	return c.members, nil
}

// assemble starts the processes, from the one that receives to the one that
// sends, but the one that listens before all.
func (c *crew) assemble(ctx context.Context, o Options, progress bool) error {
	roles := []string{roleReceiver, roleSender}
	if o.Kind == Relay {
		roles = []string{roleRelay, roleSubscriber, rolePublisher}
	}
	s := spec{Options: o}
	for _, role := range roles {
		s.Role = role
		s.Progress = progress && (role == roleReceiver || role == roleSubscriber)
		m, err := c.hire(ctx, s)
		if err != nil {
			return err
		}
		if m.ready.Addr != "" {
			s.Addr, s.Cert = m.ready.Addr, m.ready.Cert
		}
	}
	return nil
}

// environment is that of the processes: the one of this process, but for the
// width of the runtime.
func environment(o Options) []string {
	const width = "GOMAXPROCS="
	var env []string
	for _, kv := range os.Environ() {
		if strings.HasPrefix(kv, width) && (o.Width != 0 || o.Stock) {
			continue
		}
		env = append(env, kv)
	}
	if o.Width != 0 {
		env = append(env, width+strconv.Itoa(o.Width))
	}
	return env
}

// kernelNow is nil where the system has no such counters.
func kernelNow() *platform.UDPStats {
	s, err := platform.UDPSnmp()
	if err != nil {
		return nil
	}
	return &s
}

// kernelSince returns what was counted for the family of the run; a system that
// counts both families together has them in V4.
func kernelSince(o Options, before *platform.UDPStats) *platform.UDPCounters {
	now := kernelNow()
	if before == nil || now == nil {
		return nil
	}
	d := now.Sub(*before)
	if o.V6 && now.V6 != (platform.UDPCounters{}) {
		return &d.V6
	}
	return &d.V4
}
