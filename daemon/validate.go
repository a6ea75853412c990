package daemon

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"felix/broker"
	"felix/transport"
)

// off is the word that turns an optional part of the broker off.
const off = "off"

// Validate checks every setting and the rules between settings. The error is
// a *SettingError without a place.
func (c *Config) Validate() error {
	for _, s := range Settings() {
		if err := c.checkRange(s); err != nil {
			return err
		}
	}
	for _, check := range []func() error{c.checkAddresses, c.checkPackets, c.checkTLS, c.checkBudgets, c.checkRegistry} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) checkRange(s Setting) error {
	v := c.field(s)
	switch {
	case v.Kind() == reflect.String && s.OneOf != nil:
		if !slices.Contains(s.OneOf, v.String()) {
			return settingErrorf(s.Key, "", "is %q, want one of %s", v.String(), strings.Join(s.OneOf, ", "))
		}
	case v.CanInt():
		if n := v.Int(); n < s.Min || n > s.Max {
			return settingErrorf(s.Key, "", "is %d, want %d to %d%s", n, s.Min, s.Max, withSpace(s.Unit))
		}
	case v.CanUint():
		if n := v.Uint(); n < uint64(s.Min) || n > uint64(s.Max) {
			return settingErrorf(s.Key, "", "is %d, want %d to %d%s", n, s.Min, s.Max, withSpace(s.Unit))
		}
	}
	return nil
}

func withSpace(unit string) string {
	if unit == "" {
		return ""
	}
	return " " + unit
}

func (c *Config) checkAddresses() error {
	if err := checkHostPort("quic_bind", c.QUICBind); err != nil {
		return err
	}
	if c.MetricsBind != off {
		if err := checkHostPort("metrics_bind", c.MetricsBind); err != nil {
			return err
		}
	}
	if !c.Dev {
		return nil
	}
	for key, addr := range map[string]string{"quic_bind": c.QUICBind, "metrics_bind": c.MetricsBind} {
		if addr != off && !isLoopback(addr) {
			return settingErrorf(key, "", "is %q, but development mode serves loopback only (use 127.0.0.1 or ::1, or leave --dev out)", addr)
		}
	}
	return nil
}

// checkHostPort wants host:port with a numeric port; the host may be empty, a
// name or an address.
func checkHostPort(key, addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		reason := err.Error()
		if e, ok := err.(*net.AddrError); ok { //nolint:errorlint // SplitHostPort documents nothing else
			reason = e.Err
		}
		return settingErrorf(key, "", "is %q, want address:port (%s)", addr, reason)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return settingErrorf(key, "", "is %q: the port must be a number from 0 to 65535", addr)
	}
	return nil
}

func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func (c *Config) checkPackets() error {
	for _, p := range []struct {
		key  string
		size int
	}{{"initial_mtu", c.InitialMTU}, {"loopback_packet_size", c.LoopbackPacketSize}} {
		if p.size != 0 && p.size < transport.MinPacketSize {
			return settingErrorf(p.key, "", "is %d, want 0 or %d to 65527 bytes", p.size, transport.MinPacketSize)
		}
	}
	if ceiling := transport.Engine().PacketCeiling; c.InitialMTU > ceiling {
		return settingErrorf("initial_mtu", "", "is %d, larger than this program's engine allows, which is %d (felixd --version names the engine)", c.InitialMTU, ceiling)
	}
	if c.ProbesPinDir != "" && !filepath.IsAbs(c.ProbesPinDir) {
		return settingErrorf("probes_pin_dir", "", "is %q, want an absolute path", c.ProbesPinDir)
	}
	if c.KeepAliveMS > 0 && c.KeepAliveMS*2 > c.IdleTimeoutMS {
		return settingErrorf("keep_alive_ms", "", "is %d, want at most half of idle_timeout_ms, which is %d (or 0)", c.KeepAliveMS, c.IdleTimeoutMS)
	}
	return nil
}

func (c *Config) checkTLS() error {
	if (c.TLSCertFile == "") != (c.TLSKeyFile == "") {
		key, other := "tls_cert_file", "tls_key_file"
		if c.TLSCertFile == "" {
			key, other = other, key
		}
		return settingErrorf(key, "", "needs %s too", other)
	}
	for i, name := range c.TLSNames {
		if name == "" || strings.ContainsAny(name, " /") {
			return settingErrorf(fmt.Sprintf("tls_names[%d]", i), "", "is %q, want a DNS name or an address", name)
		}
	}
	if c.Dev && c.TLSCertFile != "" {
		return settingErrorf("tls_cert_file", "", "development mode makes its own certificate (leave it out)")
	}
	if c.Dev && c.JWKSFile != "" {
		return settingErrorf("jwks_file", "", "development mode makes its own signing key (leave it out)")
	}
	return nil
}

// minWindow is the smallest flow-control window that a handful of packets fits.
const minWindow = 16 * kib

// checkBudgets refuses byte budgets under which a single frame of the allowed
// size could never be accepted.
func (c *Config) checkBudgets() error {
	for _, b := range []struct {
		key   string
		bytes int64
	}{{"pub_inflight_bytes", c.PubInflightBytes}, {"pub_conn_inflight_bytes", c.PubConnInflightBytes}} {
		if b.bytes < int64(c.MaxFrameBytes) {
			return settingErrorf(b.key, "", "is %d, want at least max_frame_bytes, which is %d", b.bytes, c.MaxFrameBytes)
		}
	}
	if c.DrainGraceMS > c.ShutdownDrainTimeoutMS {
		return settingErrorf("drain_grace_ms", "", "is %d, larger than shutdown_drain_timeout_ms, which is %d", c.DrainGraceMS, c.ShutdownDrainTimeoutMS)
	}
	for _, w := range []struct {
		key, limitKey string
		size, limit   uint64
	}{
		{"cache_stream_recv_window", "cache_conn_recv_window", c.StreamRecvWindow, c.ConnRecvWindow},
		{"conn_initial_window", "cache_conn_recv_window", c.ConnInitialWindow, c.ConnRecvWindow},
		{"stream_initial_window", "cache_stream_recv_window", c.StreamInitialWindow, c.StreamRecvWindow},
	} {
		if w.size != 0 && w.size < minWindow {
			return settingErrorf(w.key, "", "is %d, want 0 or %d bytes or more", w.size, minWindow)
		}
		if w.limit != 0 && w.size > w.limit {
			return settingErrorf(w.key, "", "is %d, larger than %s, which is %d", w.size, w.limitKey, w.limit)
		}
	}
	return nil
}

func (c *Config) checkRegistry() error {
	r := c.Registry
	for i, t := range r.Tenants {
		if err := c.checkNames(fmt.Sprintf("registry.tenants[%d]", i), "tenant", t); err != nil {
			return err
		}
	}
	for i, n := range r.Namespaces {
		if err := c.checkNames(fmt.Sprintf("registry.namespaces[%d]", i), "tenant", n.Tenant, "namespace", n.Namespace); err != nil {
			return err
		}
	}
	first := map[broker.Key]int{}
	for i, s := range r.Streams {
		at := fmt.Sprintf("registry.streams[%d]", i)
		if err := c.checkNames(at, "tenant", s.Tenant, "namespace", s.Namespace, "stream", s.Stream); err != nil {
			return err
		}
		if s.RingEntries < 0 || s.RingBytes < 0 {
			return settingErrorf(at, "", "negative ring limit")
		}
		key := broker.Key{Tenant: s.Tenant, Namespace: s.Namespace, Name: s.Stream}
		j, twice := first[key]
		if twice && r.Streams[j] != s {
			e := settingErrorf(at, "", "stream %s has other options than", Quoted(key.String()))
			e.Other = fmt.Sprintf("registry.streams[%d]", j)
			return e
		}
		if !twice {
			first[key] = i
		}
	}
	for i, k := range r.Caches {
		if err := c.checkNames(fmt.Sprintf("registry.caches[%d]", i), "tenant", k.Tenant, "namespace", k.Namespace, "cache", k.Cache); err != nil {
			return err
		}
	}
	return nil
}

// checkNames checks the names of a registry entry, given as pairs of what they
// name and the name.
func (c *Config) checkNames(at string, pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		switch what, name := pairs[i], pairs[i+1]; {
		case name == "":
			return settingErrorf(at, "", "%s is missing or empty", what)
		case len(name) > c.MaxNameBytes:
			return settingErrorf(at, "", "%s has %d bytes, at most %d (max_name_bytes)", what, len(name), c.MaxNameBytes)
		}
	}
	return nil
}
