package udpprobe

import (
	"felix/platform"
	"felix/udp"
)

// side is what one of the two processes reports of itself.
type side struct {
	Granted      udp.Buffers       `json:"granted"`
	Capabilities udp.Capabilities  `json:"capabilities"`
	Stats        map[string]uint64 `json:"counters"`
	Usage        platform.Usage    `json:"usage"`
}

// sideOf describes a finished socket; usage is that since before.
func sideOf(c *udp.Conn, before platform.Usage) side {
	stats := c.Stats()
	s := side{Granted: c.Granted(), Capabilities: c.Capabilities(), Stats: stats.Map()}
	if now, err := platform.ProcessUsage(); err == nil {
		s.Usage = now.Sub(before) // zero where the system does not tell
	}
	return s
}

// usageNow is zero where the system does not tell.
func usageNow() platform.Usage {
	u, err := platform.ProcessUsage()
	if err != nil {
		return platform.Usage{}
	}
	return u
}
