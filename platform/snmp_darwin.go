package platform

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func readUDPStats() (UDPStats, error) {
	raw, err := unix.SysctlRaw("net.inet.udp.stats")
	if err != nil {
		return UDPStats{}, fmt.Errorf("udp counters: %w", err)
	}
	return parseUDPStat(raw)
}
