package transport

import (
	"net"
	"strings"
	"testing"

	"github.com/quic-go/quic-go"
)

// TestEngine: what Engine says is what the engine does.
func TestEngine(t *testing.T) {
	e := Engine()
	t.Logf("%+v", e)
	if e.Tuned == strings.HasSuffix(e.Name, " stock") || e.Tuned != strings.HasSuffix(e.Name, " tuned") {
		t.Errorf("name %q, tuned %v", e.Name, e.Tuned)
	}
	if !e.Tuned && e.PacketCeiling != stockCeiling {
		t.Errorf("a stock engine with a ceiling of %d", e.PacketCeiling)
	}
	for _, size := range []int{e.PacketCeiling, e.PacketCeiling + 1} {
		c := &quic.Config{InitialPacketSize: uint16(size)}
		sock, err := net.ListenPacket("udp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer sock.Close()
		tr := &quic.Transport{Conn: sock}
		if _, err := tr.Listen(ServerTLS(testIdentity), c); err != nil {
			t.Fatal(err)
		}
		if int(c.InitialPacketSize) != e.PacketCeiling {
			t.Errorf("the engine made %d of an initial packet size of %d, its ceiling is %d", c.InitialPacketSize, size, e.PacketCeiling)
		}
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
