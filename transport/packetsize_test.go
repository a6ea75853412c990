package transport

import (
	"net"
	"testing"

	"felix/platform"
	"felix/udp"
)

func granted(n int) udp.Buffers {
	return udp.Buffers{Read: udp.Grant{Granted: n}, Write: udp.Grant{Granted: n}}
}

func TestPacketSizes(t *testing.T) {
	mtu, err := platform.LoopbackMTU()
	if err != nil {
		t.Fatal(err)
	}
	safe := packetSize{initial: MinPacketSize}
	const large = 1 << 26
	uneven := udp.Buffers{Read: udp.Grant{Granted: large}, Write: udp.Grant{Granted: 1 << 16}}
	for name, test := range map[string]struct {
		c       Config
		ceiling int
		granted udp.Buffers
		path    packetSize
		lo      packetSize
	}{
		"large buffers":     {Config{}, 1452, granted(large), safe, packetSize{1452, true, true}},
		"just enough":       {Config{}, 1452, granted(64 * 1452), safe, packetSize{1452, true, true}},
		"just too little":   {Config{}, 1452, granted(64*1452 - 1), safe, safe},
		"small send buffer": {Config{}, 1452, uneven, safe, safe},
		"capped":            {Config{LoopbackPacketSize: 1300}, 1452, granted(large), safe, packetSize{1300, true, true}},
		"cap too high":      {Config{LoopbackPacketSize: 9000}, 1452, granted(large), safe, packetSize{1452, true, true}},
		"set":               {Config{InitialPacketSize: 1350}, 1452, granted(large), packetSize{initial: 1350}, packetSize{initial: 1350}},
		"set and fixed":     {Config{InitialPacketSize: 1350, DisablePMTUD: true}, 1452, granted(0), packetSize{1350, true, false}, packetSize{1350, true, false}},
		"set too high":      {Config{InitialPacketSize: 9000}, 1452, granted(large), packetSize{initial: 1452}, packetSize{initial: 1452}},
		"no discovery":      {Config{DisablePMTUD: true}, 1452, granted(0), packetSize{1200, true, false}, packetSize{1200, true, false}},
		"cap wins over set": {Config{InitialPacketSize: 1350, LoopbackPacketSize: 1300}, 1452, granted(large), packetSize{initial: 1350}, packetSize{initial: 1350}},
	} {
		got := choosePacketSizes(test.c, test.ceiling, test.granted)
		if got.path != test.path || got.loopback != test.lo {
			t.Errorf("%s: path %v, loopback %v, want %v and %v", name, got.path, got.loopback, test.path, test.lo)
		}
	}
	if got := loopbackSize(Config{}, 1<<15); got > platform.UDPPayload(mtu, true) {
		t.Errorf("loopback size %d does not fit its MTU %d", got, mtu)
	}
}

func TestIsLoopback(t *testing.T) {
	for text, want := range map[string]bool{
		"127.0.0.1:1": true, "127.3.2.1:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true,
		"192.0.2.1:1": false, "[2001:db8::1]:1": false, "0.0.0.0:1": false,
	} {
		a, err := net.ResolveUDPAddr("udp", text)
		if err != nil {
			t.Fatal(err)
		}
		if isLoopback(a) != want {
			t.Errorf("isLoopback(%s) = %v", text, !want)
		}
	}
	if isLoopback(&net.UnixAddr{}) || isLoopback(nil) {
		t.Error("an address that is not UDP is on loopback")
	}
}

// TestPacketSizeInUse: a fixed size is really sent, whatever it is, and full packets do not exceed it.
func TestPacketSizeInUse(t *testing.T) {
	ceiling := Engine().PacketCeiling
	for _, size := range []int{MinPacketSize, 1300, stockCeiling, 4096, 8192, ceiling} {
		if size > ceiling {
			continue
		}
		fix := func(c *Config) { c.InitialPacketSize = uint16(size); c.DisablePMTUD = true }
		l := listen(t, fix)
		echo(t, l)
		c := dial(t, dialer(t, fix), l.Addr())
		before := c.Stats()
		if err := roundTrip(testContext(t), c, string(make([]byte, 400*size))); err != nil {
			t.Fatalf("size %d: %v", size, err)
		}
		after := c.Stats()
		if after.PacketSize != size {
			t.Errorf("size %d: stats say %d", size, after.PacketSize)
		}
		mean := int(after.BytesReceived-before.BytesReceived) / int(after.PacketsReceived-before.PacketsReceived)
		if mean > size || mean < size/2 {
			t.Errorf("size %d: packets received have %d bytes on average", size, mean)
		}
	}
}

// TestLoopbackGuarantee: peers on loopback get the largest packets at once, without a search, if the buffers hold
// enough of them, and the safe start otherwise.
func TestLoopbackGuarantee(t *testing.T) {
	for _, buffer := range []int{0, 64 << 10} {
		change := func(c *Config) { c.Socket.ReadBuffer, c.Socket.WriteBuffer = buffer, buffer }
		l := listen(t, change)
		echo(t, l)
		d := dialer(t, change)
		c := dial(t, d, l.Addr())
		before := c.Stats()
		if err := roundTrip(testContext(t), c, string(make([]byte, 1<<20))); err != nil {
			t.Fatal(err)
		}
		after := c.Stats()
		mean := int(after.BytesReceived-before.BytesReceived) / int(after.PacketsReceived-before.PacketsReceived)
		size := loopbackSize(Config{}, Engine().PacketCeiling)
		g := d.Sockets()[0].Granted()
		if min(g.Read.Granted, g.Write.Granted) < minDatagrams*size {
			size = 0
		}
		t.Logf("buffers %d and %d: packet size %d, mean %d", g.Read.Granted, g.Write.Granted, after.PacketSize, mean)
		if after.PacketSize != size || mean < size/2 {
			t.Errorf("packet size %d, mean %d, want %d", after.PacketSize, mean, size)
		}
	}
}
