package daemon

import (
	"context"
	"strings"
	"testing"

	"felix/internal/testkit/netns"
)

// TestIPv6SwitchedOff is field case F13: with IPv6 off a wildcard serves IPv4,
// and an IPv6 address is a clear error and never "ready".
func TestIPv6SwitchedOff(t *testing.T) {
	ns := netns.New(t)
	ns.Sysctl(t, "net.ipv6.conf.all.disable_ipv6", "1")
	ns.Sysctl(t, "net.ipv6.conf.lo.disable_ipv6", "1")
	ns.Run(t, func() error {
		c := testConfig(t)
		c.QUICBind, c.MetricsBind = "[::1]:5000", off
		d, err := Start(context.Background(), Options{Config: c})
		if err == nil {
			stopDaemon(t, d)
			t.Error("[::1] started without IPv6")
		} else if !strings.Contains(err.Error(), "[::1]:5000") || !strings.Contains(err.Error(), "is IPv6 switched off?") {
			t.Errorf("[::1]: %v", err)
		}
		c.Dev, c.QUICBind = false, ":5000"
		d, err = Start(context.Background(), Options{Config: c})
		if err != nil {
			return err
		}
		stopDaemon(t, d)
		return nil
	})
}
