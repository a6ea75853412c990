package auth

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// The fixed keys are those that other implementations use.
func TestFixedKeys(t *testing.T) {
	for _, tc := range []struct {
		key  SigningKey
		id   string
		seed byte
	}{{DemoKey(), "demo-k1", 0x2A}, {ConformanceKey(), "k1", 21}} {
		if tc.key.ID != tc.id || !bytes.Equal(tc.key.Private.Seed(), bytes.Repeat([]byte{tc.seed}, 32)) {
			t.Errorf("key %q differs", tc.key.ID)
		}
	}
}

func TestKeySet(t *testing.T) {
	k1, k2 := DemoKey().Public(), ConformanceKey().Public()
	b, err := NewKeySet(k1).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"keys":[{"kty":"OKP","kid":"demo-k1","alg":"EdDSA","use":"sig","crv":"Ed25519","x":"` +
		base64.RawURLEncoding.EncodeToString(k1.Key) + `"}]}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
	x := base64.RawURLEncoding.EncodeToString(k1.Key)
	for _, tc := range []struct {
		name, in string
		keys     int
		err      error
	}{
		{"own form", want, 1, nil},
		{"only what is needed", `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + x + `"}]}`, 1, nil},
		{"other kinds passed over", `{"keys":[{"kty":"RSA","kid":"r","n":"AQAB","e":"AQAB"},{"kty":"OKP","crv":"X25519","x":"AA"},` +
			`{"kty":"OKP","crv":"Ed25519","use":"enc","x":"AA"},{"kty":"OKP","crv":"Ed25519","x":"` + x + `","ext":true}]}`, 1, nil},
		{"none", `{"keys":[]}`, 0, ErrNoKeys},
		{"no list", `{}`, 0, ErrNoKeys},
		{"short key", `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AAAA"}]}`, 0, ErrBadKey},
		{"padded key", `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + x + `="}]}`, 0, ErrBadKey},
		{"no key", `{"keys":[{"kty":"OKP","crv":"Ed25519"}]}`, 0, ErrBadKey},
	} {
		set, err := ParseKeySet([]byte(tc.in))
		if !errors.Is(err, tc.err) || err == nil && len(set.Keys()) != tc.keys {
			t.Errorf("%s: %v, error %v", tc.name, set, err)
		}
	}
	if _, err := ParseKeySet([]byte(`{"keys":`)); err == nil {
		t.Error("parsed what is no JSON")
	}

	set := NewKeySet(k1).With(k2).With(PublicKey{ID: "demo-k1", Key: k2.Key})
	if got := set.Keys(); len(got) != 2 || got[0].ID != "k1" || got[1].ID != "demo-k1" || !got[1].Key.Equal(k2.Key) {
		t.Errorf("keys %v", got)
	}
}

func TestKeyFiles(t *testing.T) {
	dir := t.TempDir()
	key, err := GenerateKey("new")
	if err != nil {
		t.Fatal(err)
	}
	private, public := filepath.Join(dir, "key.json"), filepath.Join(dir, "jwks.json")
	for range 2 { // the second time replaces
		if err := errors.Join(WriteSigningKey(private, key), WriteKeySet(public, NewKeySet(key.Public()))); err != nil {
			t.Fatal(err)
		}
	}
	back, err := LoadSigningKey(private)
	if err != nil || back.ID != "new" || !back.Private.Equal(key.Private) {
		t.Errorf("key %q, error %v", back.ID, err)
	}
	set, err := LoadKeySet(public)
	if err != nil || len(set.Keys()) != 1 || !set.Keys()[0].Key.Equal(key.Public().Key) {
		t.Errorf("set %v, error %v", set, err)
	}
	for path, mode := range map[string]os.FileMode{private: 0o600, public: 0o644} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if b, err := os.ReadFile(public); err != nil || bytes.Contains(b, []byte(`"d"`)) {
		t.Error("the public set holds a private key")
	}

	if err := os.Chmod(private, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadSigningKey(private); !errors.Is(err, ErrKeyExposed) {
		t.Errorf("a key that others can read: %v", err)
	}
	if _, err := LoadSigningKey(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := LoadKeySet(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if err := WriteSigningKey(filepath.Join(dir, "no", "key"), key); err == nil {
		t.Error("wrote into a folder that does not exist")
	}
	other, err := GenerateKey("x")
	if err != nil {
		t.Fatal(err)
	}
	mixed, err := other.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	mixed = bytes.Replace(mixed, []byte(base64.RawURLEncoding.EncodeToString(other.Public().Key)),
		[]byte(base64.RawURLEncoding.EncodeToString(key.Public().Key)), 1)
	for _, in := range []string{string(mixed), `{"kty":"RSA"}`, `{"kty":"OKP","crv":"Ed25519","d":"AA","x":"AA"}`, `{`, `{"kty":"OKP","crv":"Ed25519","d":"?"}`} {
		if _, err := ParseSigningKey([]byte(in)); err == nil {
			t.Errorf("parsed %s", in)
		}
	}
	if _, err := NewKeyFromSeed("x", make([]byte, 31)); !errors.Is(err, ErrBadKey) {
		t.Error(err)
	}
}
