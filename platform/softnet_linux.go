package platform

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

func readSoftnet() (SoftnetStats, error) { return realRoot.softnet() }

func (r hostRoot) softnet() (SoftnetStats, error) {
	text, err := r.read("proc/thread-self/net/softnet_stat")
	if err != nil {
		return SoftnetStats{}, fmt.Errorf("softnet counters: %w", err)
	}
	return parseSoftnet(text)
}

// parseSoftnet reads a line of hexadecimal columns for each CPU; the first
// three are processed, dropped and squeezed.
func parseSoftnet(text string) (SoftnetStats, error) {
	var s SoftnetStats
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			return s, fmt.Errorf("softnet counters: line %q", strings.TrimSpace(line))
		}
		for i, dst := range []*uint64{&s.Processed, &s.Dropped, &s.Squeezed} {
			v, err := strconv.ParseUint(fields[i], 16, 32)
			if err != nil {
				return s, fmt.Errorf("softnet counters: %w", err)
			}
			*dst += v
		}
	}
	if text == "" {
		return s, errors.New("softnet counters: empty")
	}
	return s, nil
}
