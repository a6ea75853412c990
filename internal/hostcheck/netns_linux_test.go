package hostcheck

import (
	"os"

	"github.com/vishvananda/netlink"
)

// loopbackUpWithoutIPv6 prepares the calling thread's network namespace.
func loopbackUpWithoutIPv6() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0); err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}
