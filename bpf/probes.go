package bpf

import (
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"sync"
	"time"
)

// DefaultPinDir is the directory that docs and tools expect pins in.
const DefaultPinDir = "/sys/fs/bpf/felix"

// Options are the settings of [Open]. The zero value loads nothing.
type Options struct {
	Mode Mode
	// PinDir is where maps are pinned for bpftool and other programs, usually
	// [DefaultPinDir]; empty for no pins. It must be an absolute path on a
	// mounted BPF file system. The directory is made if it is missing and
	// belongs to one process at a time.
	PinDir string
	// PinMode is the mode of the pins, 0600 if zero. With 0644 every local user
	// may read them, without capabilities. A directory that Open makes gets the
	// search bits that go with it.
	PinMode fs.FileMode
	// RunStats asks the kernel to measure the programs, see
	// [Probes.SetRunStats].
	RunStats bool
}

func (o Options) validate() error {
	switch {
	case o.Mode > ModeFull:
		return fmt.Errorf("bpf: open: unknown mode %d", o.Mode)
	case o.PinDir != "" && !filepath.IsAbs(o.PinDir):
		return fmt.Errorf("bpf: open: pin directory %q is not absolute", o.PinDir)
	case o.PinMode&^0o666 != 0:
		return fmt.Errorf("bpf: open: pin mode %#o: want read and write bits only", o.PinMode)
	}
	return nil
}

// Socket identifies a watched socket.
type Socket struct {
	// Cookie is the kernel's id of the socket (SO_COOKIE): unique on the host
	// until it restarts. 0 on systems other than Linux.
	Cookie    uint64 `json:"cookie"`
	LocalPort uint16 `json:"local_port"`
}

// Probes are the attached programs of one process. All methods may be called
// concurrently.
type Probes struct {
	opts Options

	mu      sync.Mutex
	mode    Mode
	sockets map[uint64]Socket
	host    host
	closed  bool
}

// Open attaches the programs that the mode asks for, each metric by itself. What
// cannot be attached is off, with its reason in [Probes.Status]. The error is
// about the options only. It takes some 0.1 s, more on a busy machine.
func Open(o Options) (*Probes, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.PinMode == 0 {
		o.PinMode = 0o600
	}
	p := &Probes{opts: o, sockets: map[uint64]Socket{}}
	p.host.open(o)
	p.host.apply(o.Mode, nil)
	p.mode = o.Mode
	return p, nil
}

// Mode returns the mode asked for last.
func (p *Probes) Mode() Mode {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode
}

// SetMode attaches what m asks for and is not attached, and detaches the rest.
// Metrics that stay keep counting; those that could not attach before are tried
// again. The error wraps net.ErrClosed after Close; otherwise it is about m.
func (p *Probes) SetMode(m Mode) error {
	if m > ModeFull {
		return fmt.Errorf("bpf: set mode: unknown mode %d", m)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return fmt.Errorf("bpf: set mode: %w", net.ErrClosed)
	}
	p.host.apply(m, p.sockets)
	p.mode = m
	return nil
}

// SetRunStats makes the kernel measure how often and how long BPF programs run
// (Linux 5.8), or stops it. It concerns all programs of the host, makes each
// some 45 % dearer and needs CAP_SYS_ADMIN, so it is meant for a short while.
// The error is a *Reason; [Status] keeps it. Stopping never fails, but has no
// effect on what sysctl kernel.bpf_stats_enabled or others have switched on.
func (p *Probes) SetRunStats(on bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return fmt.Errorf("bpf: run stats: %w", net.ErrClosed)
	}
	if r := p.host.runStats(on); r != nil {
		return r
	}
	return nil
}

// Watch identifies the socket behind the descriptor fd and counts its drops from
// now on, in this mode and later ones. Call it inside a SyscallConn's Control;
// the descriptor is not kept. Watching a socket again changes nothing. On
// systems other than Linux it does nothing.
func (p *Probes) Watch(fd uintptr) (Socket, error) {
	s, err := identify(fd)
	if err != nil {
		return Socket{}, fmt.Errorf("bpf: watch socket: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return Socket{}, fmt.Errorf("bpf: watch socket: %w", net.ErrClosed)
	}
	if err := p.host.watch(s); err != nil {
		return Socket{}, fmt.Errorf("bpf: watch socket: %w", err)
	}
	p.sockets[s.Cookie] = s
	return s, nil
}

// Unwatch forgets a socket and its counters. Call it when the socket is closed.
func (p *Probes) Unwatch(s Socket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sockets, s.Cookie)
	if !p.closed {
		p.host.unwatch(s)
	}
}

// Snapshot reads all counters, which takes some 0.1 ms: scrape it, do not poll it
// in a tight loop. A map that cannot be read leaves its metric nil and is in the error;
// after Close the error wraps net.ErrClosed.
func (p *Probes) Snapshot() (Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return Snapshot{}, fmt.Errorf("bpf: snapshot: %w", net.ErrClosed)
	}
	s := Snapshot{Taken: time.Now(), Mode: p.mode, Attached: map[Metric]time.Time{}}
	if err := p.host.read(&s); err != nil {
		return s, fmt.Errorf("bpf: snapshot: %w", err)
	}
	return s, nil
}

// Status says what is measured, and why the rest is not. After Close everything
// is off.
func (p *Probes) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Status{Mode: p.mode, Pins: p.host.pinStatus()}
	s.RunStats, s.RunStatsReason = p.host.runStatsState()
	for _, m := range Metrics() {
		e := p.host.status(m)
		if !e.On && e.Reason == nil {
			e.Reason = notInMode(m, p.mode)
		}
		s.Metrics = append(s.Metrics, e)
	}
	return s
}

func notInMode(m Metric, mode Mode) *Reason {
	want := ModeFull
	if ModeSched.has(m) {
		want = ModeSched
	}
	return &Reason{Kind: ReasonMode, Text: "probes are set to " + mode.String(), Remedy: "set probes to " + want.String()}
}

// Close detaches all programs, frees the maps and removes the pins. The first
// error of a removal is returned; everything else is released all the same.
// Closing again does nothing.
func (p *Probes) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	p.mode = ModeOff
	if err := p.host.close(); err != nil {
		return fmt.Errorf("bpf: close: %w", err)
	}
	return nil
}
