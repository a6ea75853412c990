package transport

import (
	"crypto/tls"
	"runtime/debug"
	"sync"

	"github.com/quic-go/quic-go"
)

// EngineInfo names the QUIC implementation that this program carries.
type EngineInfo struct {
	// Name is for people: module, version, and whether its constants are stock or tuned.
	Name string
	// Tuned: the program was built with the tuned copy of the module.
	Tuned bool
	// PacketCeiling is the largest packet the engine sends or receives, in bytes of UDP payload.
	PacketCeiling int
}

// stockCeiling is MaxPacketBufferSize of the module as published.
const stockCeiling = 1452

const engineModule = "github.com/quic-go/quic-go"

// Engine returns what the program was built with. The ceiling is asked of the compiled engine itself.
func Engine() EngineInfo { return engineOnce() }

var engineOnce = sync.OnceValue(func() EngineInfo {
	e := EngineInfo{PacketCeiling: probeCeiling()}
	version, replaced := engineModuleVersion()
	e.Tuned = replaced || e.PacketCeiling != stockCeiling
	e.Name = "quic-go"
	if version != "" {
		e.Name += " " + version
	}
	if e.Tuned {
		e.Name += " tuned"
	} else {
		e.Name += " stock"
	}
	return e
})

// probeCeiling finds the largest packet size of the engine. Before anything else quic-go cuts the initial packet size
// of a configuration down to its ceiling; the invalid version makes it stop right after.
func probeCeiling() int {
	const invalidVersion = 0
	c := &quic.Config{InitialPacketSize: 1<<16 - 1, Versions: []quic.Version{invalidVersion}}
	_, err := new(quic.Transport).Listen(new(tls.Config), c)
	if err == nil || c.InitialPacketSize == 1<<16-1 {
		return stockCeiling // an engine that checks in another order: take what is always safe
	}
	return int(c.InitialPacketSize)
}

func engineModuleVersion() (version string, replaced bool) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", false
	}
	for _, m := range info.Deps {
		if m.Path == engineModule {
			return m.Version, m.Replace != nil
		}
	}
	return "", false
}
