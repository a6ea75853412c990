package auth

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// SigningKey is an Ed25519 key pair under a key ID.
type SigningKey struct {
	ID      string
	Private ed25519.PrivateKey
}

// GenerateKey makes a new key pair from the system's random source.
func GenerateKey(id string) (SigningKey, error) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return SigningKey{}, fmt.Errorf("generate key: %w", err)
	}
	return SigningKey{ID: id, Private: private}, nil
}

// NewKeyFromSeed makes the key pair of a 32-byte seed (RFC 8032 section
// 5.1.5). The error wraps [ErrBadKey] for any other length.
func NewKeyFromSeed(id string, seed []byte) (SigningKey, error) {
	if len(seed) != ed25519.SeedSize {
		return SigningKey{}, fmt.Errorf("key %q: seed of %d bytes, want %d: %w", id, len(seed), ed25519.SeedSize, ErrBadKey)
	}
	return SigningKey{ID: id, Private: ed25519.NewKeyFromSeed(seed)}, nil
}

// Public returns the half that verifies.
func (k SigningKey) Public() PublicKey {
	return PublicKey{ID: k.ID, Key: k.Private.Public().(ed25519.PublicKey)}
}

// ParseSigningKey reads a private JSON Web Key. The error wraps [ErrBadKey] if
// it is not an Ed25519 key or its two halves do not belong together.
func ParseSigningKey(b []byte) (SigningKey, error) {
	var in jwk
	if err := json.Unmarshal(b, &in); err != nil {
		return SigningKey{}, fmt.Errorf("parse signing key: %w", err)
	}
	if !in.ours() {
		return SigningKey{}, fmt.Errorf("parse signing key: not an Ed25519 signature key: %w", ErrBadKey)
	}
	seed, err := decodeBase64(in.D)
	if err != nil {
		return SigningKey{}, fmt.Errorf("parse signing key: d is not unpadded base64url: %w", ErrBadKey)
	}
	key, err := NewKeyFromSeed(in.KID, seed)
	if err != nil {
		return SigningKey{}, fmt.Errorf("parse signing key: %w", err)
	}
	public, err := in.public()
	if err != nil {
		return SigningKey{}, fmt.Errorf("parse signing key: %w", err)
	}
	if !public.Key.Equal(key.Public().Key) {
		return SigningKey{}, fmt.Errorf("parse signing key: x is not the public half of d: %w", ErrBadKey)
	}
	return key, nil
}

// MarshalJSON writes the key pair as a private JSON Web Key.
func (k SigningKey) MarshalJSON() ([]byte, error) {
	out := publicJWK(k.Public())
	out.D = base64.RawURLEncoding.EncodeToString(k.Private.Seed())
	return json.Marshal(out)
}

// LoadSigningKey reads the private key in file path. The error wraps
// [ErrKeyExposed] if the file's mode lets anyone but its owner in.
func LoadSigningKey(path string) (SigningKey, error) {
	f, err := os.Open(path)
	if err != nil {
		return SigningKey{}, fmt.Errorf("load signing key: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return SigningKey{}, fmt.Errorf("load signing key: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return SigningKey{}, fmt.Errorf("load signing key %s: mode %#o, want 0600: %w", path, info.Mode().Perm(), ErrKeyExposed)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return SigningKey{}, fmt.Errorf("load signing key: %w", err)
	}
	key, err := ParseSigningKey(b)
	if err != nil {
		return SigningKey{}, fmt.Errorf("load signing key %s: %w", path, err)
	}
	return key, nil
}

// WriteSigningKey stores k in file path, mode 0600, in one step.
func WriteSigningKey(path string, k SigningKey) error {
	b, err := json.Marshal(k, jsontext.WithIndent("  "))
	if err != nil {
		return fmt.Errorf("write signing key: %w", err)
	}
	if err := writeFile(path, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("write signing key: %w", err)
	}
	return nil
}

// writeFile replaces path by a file that is on disk in full before it takes
// the name.
func writeFile(path string, data []byte, mode os.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := fill(f, data, mode); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func fill(f *os.File, data []byte, mode os.FileMode) error {
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Sync()
}
