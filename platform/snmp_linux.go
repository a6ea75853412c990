package platform

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

func readUDPStats() (UDPStats, error) { return realRoot.udpStats() }

// udpStats goes through thread-self: /proc/net would be the namespace of the
// process's first thread.
func (r hostRoot) udpStats() (UDPStats, error) {
	var s UDPStats
	text, err := r.read("proc/thread-self/net/snmp")
	if err != nil {
		return s, fmt.Errorf("udp counters: %w", err)
	}
	if s.V4, err = parseSnmp(text); err != nil {
		return s, fmt.Errorf("udp counters: %w", err)
	}
	text, err = r.read("proc/thread-self/net/snmp6")
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil // a kernel without IPv6
	}
	if err != nil {
		return s, fmt.Errorf("udp counters: %w", err)
	}
	if s.V6, err = parseSnmp6(text); err != nil {
		return s, fmt.Errorf("udp counters: %w", err)
	}
	return s, nil
}

// parseSnmp reads the two "Udp:" lines, names and values.
func parseSnmp(text string) (UDPCounters, error) {
	var c UDPCounters
	var names []string
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "Udp:")
		if !ok {
			continue
		}
		fields := strings.Fields(rest)
		if names == nil {
			names = fields
			continue
		}
		if len(fields) != len(names) {
			return c, fmt.Errorf("snmp: %d names, %d values", len(names), len(fields))
		}
		for i, f := range fields {
			v, err := strconv.ParseUint(f, 10, 64)
			if err != nil {
				return c, fmt.Errorf("snmp: %s: %w", names[i], err)
			}
			c.set(names[i], v)
		}
		return c, nil
	}
	return c, errors.New("snmp: no Udp lines")
}

// parseSnmp6 reads the lines "Udp6Name value".
func parseSnmp6(text string) (UDPCounters, error) {
	var c UDPCounters
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "Udp6")
		if !ok {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) != 2 {
			return c, fmt.Errorf("snmp6: line %q", strings.TrimSpace(line))
		}
		v, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			return c, fmt.Errorf("snmp6: %s: %w", fields[0], err)
		}
		c.set(fields[0], v)
	}
	return c, nil
}
