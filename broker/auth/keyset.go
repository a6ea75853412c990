package auth

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"os"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// PublicKey verifies tokens.
type PublicKey struct {
	// ID is the JWK "kid"; it may be empty.
	ID string
	// Key has 32 bytes.
	Key ed25519.PublicKey
}

// KeySet is an immutable list of public keys.
type KeySet struct {
	keys []PublicKey
}

// NewKeySet returns a set of keys in the given order.
func NewKeySet(keys ...PublicKey) *KeySet {
	return &KeySet{keys: append([]PublicKey(nil), keys...)}
}

// Keys returns a copy of the list.
func (s *KeySet) Keys() []PublicKey { return append([]PublicKey(nil), s.keys...) }

// With returns a new set that holds the keys of s followed by k. A key of the
// same ID in s is replaced.
func (s *KeySet) With(k PublicKey) *KeySet {
	out := make([]PublicKey, 0, len(s.keys)+1)
	for _, old := range s.keys {
		if old.ID != k.ID {
			out = append(out, old)
		}
	}
	return &KeySet{keys: append(out, k)}
}

// jwk is one Ed25519 key as RFC 8037 section 2 writes it. D, the seed, is
// present in private keys only.
type jwk struct {
	KTY string `json:"kty"`
	KID string `json:"kid,omitempty"`
	Alg string `json:"alg,omitempty"`
	Use string `json:"use,omitempty"`
	Crv string `json:"crv,omitempty"`
	X   string `json:"x,omitempty"`
	D   string `json:"d,omitempty"`
}

const (
	jwkKeyType   = "OKP"
	jwkCurve     = "Ed25519"
	jwkAlgorithm = "EdDSA"
	jwkUse       = "sig"
)

// jwks is a JSON Web Key Set.
type jwks struct {
	Keys []jwk `json:"keys"`
}

// ours reports whether k is an Ed25519 signature key. Sets may hold other
// kinds of keys beside it, which are passed over.
func (k jwk) ours() bool {
	return k.KTY == jwkKeyType && k.Crv == jwkCurve &&
		(k.Alg == "" || k.Alg == jwkAlgorithm) && (k.Use == "" || k.Use == jwkUse)
}

// public decodes the public part.
func (k jwk) public() (PublicKey, error) {
	x, err := decodeBase64(k.X)
	if err != nil || len(x) != ed25519.PublicKeySize {
		return PublicKey{}, fmt.Errorf("key %q: x is not %d bytes of unpadded base64url: %w",
			k.KID, ed25519.PublicKeySize, ErrBadKey)
	}
	return PublicKey{ID: k.KID, Key: x}, nil
}

// ParseKeySet reads a JSON Web Key Set. Keys that are not Ed25519 signature
// keys are passed over; a malformed Ed25519 key is an error that wraps
// [ErrBadKey], a set without any is one that wraps [ErrNoKeys].
func ParseKeySet(b []byte) (*KeySet, error) {
	var in jwks
	if err := json.Unmarshal(b, &in); err != nil {
		return nil, fmt.Errorf("parse key set: %w", err)
	}
	set := &KeySet{}
	for _, k := range in.Keys {
		if !k.ours() {
			continue
		}
		p, err := k.public()
		if err != nil {
			return nil, fmt.Errorf("parse key set: %w", err)
		}
		set.keys = append(set.keys, p)
	}
	if len(set.keys) == 0 {
		return nil, fmt.Errorf("parse key set: %w", ErrNoKeys)
	}
	return set, nil
}

// MarshalJSON writes the set as a JSON Web Key Set.
func (s *KeySet) MarshalJSON() ([]byte, error) {
	out := jwks{Keys: make([]jwk, 0, len(s.keys))}
	for _, k := range s.keys {
		out.Keys = append(out.Keys, publicJWK(k))
	}
	return json.Marshal(out)
}

func publicJWK(k PublicKey) jwk {
	return jwk{KTY: jwkKeyType, KID: k.ID, Alg: jwkAlgorithm, Use: jwkUse, Crv: jwkCurve,
		X: base64.RawURLEncoding.EncodeToString(k.Key)}
}

// LoadKeySet reads the key set in file path, see [ParseKeySet].
func LoadKeySet(path string) (*KeySet, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load key set: %w", err)
	}
	set, err := ParseKeySet(b)
	if err != nil {
		return nil, fmt.Errorf("load key set %s: %w", path, err)
	}
	return set, nil
}

// WriteKeySet stores s in file path, mode 0644, in one step: a reader sees the
// old set or the new one.
func WriteKeySet(path string, s *KeySet) error {
	b, err := json.Marshal(s, jsontext.WithIndent("  "))
	if err != nil {
		return fmt.Errorf("write key set: %w", err)
	}
	if err := writeFile(path, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("write key set: %w", err)
	}
	return nil
}
