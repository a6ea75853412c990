package transport

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"felix/internal/testkit/netns"
)

// TestNarrowLinks: links of 1280 and of 1228 bytes work; one that cannot carry QUIC at all is named at once.
func TestNarrowLinks(t *testing.T) {
	for _, test := range []struct {
		mtu    int
		server netip.Addr
		works  bool
	}{
		{1500, netns.A4, true},
		{1280, netns.A4, true},
		{1280, netns.A6, true},
		{1228, netns.A4, true},
		{1227, netns.A4, false},
	} {
		t.Run(fmt.Sprintf("%d to %s", test.mtu, test.server), func(t *testing.T) {
			a, b := netns.Pair(t)
			a.SetMTU(t, netns.Cable, test.mtu)
			b.SetMTU(t, netns.Cable, test.mtu)
			var l *Listener
			a.Run(t, func() error {
				l = listenOn(t, netip.AddrPortFrom(test.server, 0).String(), nil)
				return nil
			})
			echo(t, l)
			d := dialer(t, nil)
			start := time.Now()
			var c *Conn
			err := b.Do(func() (err error) {
				c, err = d.Dial(testContext(t), l.Addr().String())
				return err
			})
			if took := time.Since(start); took > prompt {
				t.Errorf("dial took %v", took)
			}
			if !test.works {
				if !errors.Is(err, ErrPacketTooBig) {
					t.Errorf("dial: %v, want ErrPacketTooBig", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := roundTrip(testContext(t), c, string(make([]byte, 200<<10))); err != nil {
				t.Errorf("transfer: %v", err)
			}
		})
	}
}
