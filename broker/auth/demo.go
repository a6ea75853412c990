package auth

import (
	"bytes"
	"crypto/ed25519"
)

// The demo and conformance keys are public knowledge. They exist so that
// tests, demos and benchmarks of different implementations work together; a
// broker that trusts them protects nothing.
const (
	demoSeedByte        = 0x2A
	conformanceSeedByte = 0x15
)

// DemoKey is the key "demo-k1" that demos and benchmarks use.
func DemoKey() SigningKey { return fixedKey("demo-k1", demoSeedByte) }

// ConformanceKey is the key "k1" that conformance tests use.
func ConformanceKey() SigningKey { return fixedKey("k1", conformanceSeedByte) }

func fixedKey(id string, b byte) SigningKey {
	seed := bytes.Repeat([]byte{b}, ed25519.SeedSize)
	return SigningKey{ID: id, Private: ed25519.NewKeyFromSeed(seed)}
}

// DemoClaims lets the principal "p:demo" do everything within tenant for
// [DefaultLifetime].
func DemoClaims(tenant string) Claims {
	return Claims{
		Tenant:  tenant,
		Subject: "p:demo",
		Permissions: []string{
			Permission{ActionTenantManage, "tenant:" + tenant}.String(),
			Permission{ActionNamespaceManage, "namespace:" + tenant + "/*"}.String(),
			Permission{ActionStreamPublish, StreamResource(tenant, "*", "*")}.String(),
			Permission{ActionStreamSubscribe, StreamResource(tenant, "*", "*")}.String(),
			Permission{ActionCacheRead, CacheResource(tenant, "*", "*")}.String(),
			Permission{ActionCacheWrite, CacheResource(tenant, "*", "*")}.String(),
		},
	}
}
