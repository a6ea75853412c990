package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"time"

	"felix/broker/auth"
	"felix/transport"
)

// ownKeyID names the signing key that a broker makes for itself.
const ownKeyID = "felixd-1"

// caName is the file with the certificate for clients.
const caName = "ca.pem"

// loadIdentity returns the certificate and reset key: the configured
// certificate, or one of our own that stays the same across restarts.
func loadIdentity(c *Config, dataDir string, log *slog.Logger) (*transport.Identity, error) {
	var id *transport.Identity
	var err error
	if c.TLSCertFile != "" {
		id, err = transport.LoadIdentity(c.TLSCertFile, c.TLSKeyFile, dataDir)
	} else {
		id, err = transport.LoadOrCreateIdentity(dataDir, c.TLSNames...)
	}
	if err != nil {
		return nil, &StartError{Step: "certificate", Err: err, Hint: permissionHint(err)}
	}
	for _, w := range id.Warnings(time.Now(), namesServed(c)...) {
		log.Warn("certificate: " + w)
	}
	if c.TLSCertFile == "" {
		if err := id.WriteCAFile(filepath.Join(dataDir, caName)); err != nil {
			return nil, &StartError{Step: "certificate for clients", Err: err}
		}
	}
	return id, nil
}

// namesServed are the names that clients are likely to check the certificate
// against: those configured, and the address listened on if it is a single one.
func namesServed(c *Config) []string {
	names := append([]string{transport.DefaultServerName}, c.TLSNames...)
	if c.TLSCertFile != "" {
		names = c.TLSNames
	}
	if host, _, err := net.SplitHostPort(c.QUICBind); err == nil {
		if ip, err := netip.ParseAddr(host); err == nil && !ip.IsUnspecified() {
			names = append(names, host)
		}
	}
	return names
}

// keyring is how tokens are checked, and signed where the broker has a key of
// its own.
type keyring struct {
	verifier *auth.Verifier
	issuer   *auth.Issuer // nil with jwks_file
	source   string       // file the public keys come from
}

// loadKeyring reads the configured key set, or makes a signing key once and
// keeps it.
func loadKeyring(c *Config, dataDir string) (*keyring, error) {
	if c.JWKSFile != "" {
		set, err := auth.LoadKeySet(c.JWKSFile)
		if err != nil {
			return nil, &StartError{Step: "jwks_file", Err: err, Hint: permissionHint(err)}
		}
		return &keyring{verifier: auth.NewVerifier(set), source: c.JWKSFile}, nil
	}
	path := SigningKeyFile(dataDir)
	key, err := auth.LoadSigningKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		if key, err = auth.GenerateKey(ownKeyID); err == nil {
			err = auth.WriteSigningKey(path, key)
		}
	}
	if err != nil {
		return nil, &StartError{Step: "signing key", Err: err, Hint: permissionHint(err)}
	}
	set := auth.NewKeySet(key.Public())
	if err := auth.WriteKeySet(filepath.Join(dataDir, jwksName), set); err != nil {
		return nil, &StartError{Step: "key set", Err: err}
	}
	return &keyring{verifier: auth.NewVerifier(set), issuer: auth.NewIssuer(key), source: path}, nil
}

// SigningKeyFile is where a broker without jwks_file keeps the key that tokens
// for it are signed with.
func SigningKeyFile(dataDir string) string { return filepath.Join(dataDir, signingKeyName) }

// JWKSFile is where that broker writes the public half.
func JWKSFile(dataDir string) string { return filepath.Join(dataDir, jwksName) }

// reload reads the key set again; on an error the old keys stay in use.
func (k *keyring) reload() error {
	if k.issuer != nil {
		return nil // made by this process, nothing outside can change it
	}
	set, err := auth.LoadKeySet(k.source)
	if err != nil {
		return fmt.Errorf("jwks_file: %w", err)
	}
	k.verifier.SetKeys(set)
	return nil
}

// permissionHint says what to do about a file that cannot be read.
func permissionHint(err error) string {
	switch {
	case errors.Is(err, auth.ErrKeyExposed):
		return "chmod 600 it"
	case errors.Is(err, fs.ErrPermission):
		return "the user that runs felixd must be able to read it"
	}
	return ""
}
