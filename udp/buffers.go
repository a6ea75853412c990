package udp

import "felix/platform"

// Grant is what the kernel gave of one socket buffer. Sizes are in bytes and
// comparable with what was asked for: the kernel's own doubling on Linux is
// taken out.
type Grant struct {
	Asked   int `json:"asked_bytes"`
	Granted int `json:"granted_bytes"`
	// Forced: granted beyond the host's limit, with CAP_NET_ADMIN.
	Forced bool `json:"forced"`
	// Limit is the kernel setting that cut the request down, "" when it was
	// granted in full.
	Limit string `json:"limit,omitempty"`
	// LimitBytes is the value of that setting, 0 when it cannot be read.
	LimitBytes int `json:"limit_bytes,omitempty"`
}

// Buffers are the grants of both directions.
type Buffers struct {
	Read  Grant `json:"read"`
	Write Grant `json:"write"`
}

// limited reports whether either buffer is smaller than asked for.
func (b Buffers) limited() bool { return b.Read.Limit != "" || b.Write.Limit != "" }

// bufferKind is what setting one of the two buffers needs to know.
type bufferKind struct {
	plain, force option
	limit        string
	least        int // raised to this when asked for less
}

// setBuffers asks for the configured buffers and reports what came of it.
// sysctl reads a kernel setting, platform.SysctlInt outside of tests.
func (p *policy) setBuffers(opts options, c Config, sysctl func(string) (int64, error)) Buffers {
	read := bufferKind{plain: optReadBuffer, force: optForceReadBuffer, limit: p.readLimit}
	write := bufferKind{plain: optWriteBuffer, force: optForceWriteBuffer, limit: p.writeLimit, least: p.minWrite}
	return Buffers{
		Read:  p.setBuffer(opts, read, c.ReadBuffer, sysctl),
		Write: p.setBuffer(opts, write, c.WriteBuffer, sysctl),
	}
}

func (p *policy) setBuffer(opts options, kind bufferKind, asked int, sysctl func(string) (int64, error)) Grant {
	if asked == 0 {
		asked = DefaultBuffer
	}
	asked = max(asked, kind.least)
	// Linux cuts a request down without a word, others refuse it whole.
	for n := asked; opts.set(kind.plain, n) != nil && n/2 >= MinBuffer; n /= 2 {
	}
	g := Grant{Asked: asked, Granted: p.granted(opts, kind.plain)}
	if g.Granted >= asked {
		return g
	}
	// Without the right, or on another system, this fails and nothing changes.
	if opts.set(kind.force, asked) == nil {
		g.Granted = p.granted(opts, kind.plain)
		g.Forced = g.Granted >= asked
	}
	if g.Granted < asked {
		g.Limit = kind.limit
		if v, err := sysctl(kind.limit); err == nil {
			g.LimitBytes = int(v)
		}
	}
	return g
}

// granted reads a buffer size back, 0 if the system does not tell.
func (p *policy) granted(opts options, o option) int {
	n, err := opts.get(o)
	if err != nil {
		return 0
	}
	if p.doubled {
		return n / 2
	}
	return n
}

// restore gives the buffers their granted sizes again after foreign hands were
// on the socket.
func (p *policy) restore(opts options, b Buffers) {
	for _, x := range [...]struct {
		plain, force option
		want         int
		forced       bool
	}{
		{optReadBuffer, optForceReadBuffer, b.Read.Granted, b.Read.Forced},
		{optWriteBuffer, optForceWriteBuffer, b.Write.Granted, b.Write.Forced},
	} {
		if x.want == 0 || p.granted(opts, x.plain) == x.want {
			continue
		}
		o := x.plain
		if x.forced {
			o = x.force
		}
		_ = opts.set(o, x.want) // a size that was granted before; if not, the socket works with the other one
	}
}

// readSysctl is the sysctl source of production sockets.
var readSysctl = platform.SysctlInt
