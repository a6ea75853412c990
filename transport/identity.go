package transport

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Identity is what a server proves itself with: a certificate and its key, and the key of its stateless resets. It
// must stay the same across restarts, or every client is locked out until it gets the new certificate.
type Identity struct {
	cert   atomic.Pointer[tls.Certificate]
	reset  [32]byte
	source func() (*tls.Certificate, error) // reads the certificate again

	mu    sync.Mutex
	notes []string // what was odd about the files, in the order found
}

// Certificate returns the certificate in use. It must not be changed.
func (id *Identity) Certificate() *tls.Certificate { return id.cert.Load() }

// ResetKey returns the key of the stateless resets, for Config.StatelessResetKey.
func (id *Identity) ResetKey() *[32]byte {
	key := id.reset
	return &key
}

// NotAfter returns when the certificate expires.
func (id *Identity) NotAfter() time.Time { return id.Certificate().Leaf.NotAfter }

// Reload reads the certificate and its key again; handshakes from then on use what it found. On an error the old
// certificate stays in use. The reset key never changes.
func (id *Identity) Reload() error {
	cert, err := id.source()
	if err != nil {
		return fmt.Errorf("transport: reload certificate: %w", err)
	}
	id.cert.Store(cert)
	return nil
}

// WriteCAFile writes the certificate, in PEM, to a file that clients can be given as their CA file. The file is
// readable by everybody and replaced in one step.
func (id *Identity) WriteCAFile(file string) error {
	var text []byte
	for _, der := range id.Certificate().Certificate {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: der})...)
	}
	if old, err := os.ReadFile(file); err == nil && string(old) == string(text) {
		return nil
	}
	return replaceFile(file, text, 0o644)
}

// Pool returns a pool that trusts this certificate alone, for clients in the same process.
func (id *Identity) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(id.Certificate().Leaf)
	return pool
}

// expiryWarning is how long before its end a certificate is warned about.
const expiryWarning = 30 * 24 * time.Hour

// Warnings returns, in words, what will keep or soon keep clients from connecting at the time now: expiry, and names
// that the certificate does not cover. Names are host names or IP addresses.
func (id *Identity) Warnings(now time.Time, names ...string) []string {
	leaf := id.Certificate().Leaf
	id.mu.Lock()
	out := slices.Clone(id.notes)
	id.mu.Unlock()
	switch {
	case now.After(leaf.NotAfter):
		out = append(out, fmt.Sprintf("the certificate expired on %s", leaf.NotAfter.Format(time.DateOnly)))
	case now.Before(leaf.NotBefore):
		out = append(out, fmt.Sprintf("the certificate is not valid before %s", leaf.NotBefore.Format(time.DateTime)))
	case now.Add(expiryWarning).After(leaf.NotAfter):
		out = append(out, fmt.Sprintf("the certificate expires on %s", leaf.NotAfter.Format(time.DateOnly)))
	}
	for _, name := range names {
		if err := leaf.VerifyHostname(name); err != nil {
			out = append(out, fmt.Sprintf("the certificate is not valid for %s", name))
		}
	}
	return out
}

// identityFile holds the identity in a directory: PEM blocks of the certificate, its key and the reset key.
const identityFile = "identity.pem"

// LoadOrCreateIdentity returns the identity kept in dir, making it first if there is none: a self-signed certificate
// for localhost, the loopback addresses, the host's name and the names given (host names or IP addresses). The file is
// readable by its owner only; of several processes that start at once, all get the same identity. dir is created with
// mode 0700 if it is missing.
func LoadOrCreateIdentity(dir string, names ...string) (*Identity, error) {
	file := filepath.Join(dir, identityFile)
	text, err := loadOrCreate(file, func() ([]byte, error) { return newIdentity(time.Now(), names) })
	if err != nil {
		return nil, fmt.Errorf("transport: identity: %w", err)
	}
	id := &Identity{source: func() (*tls.Certificate, error) {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		cert, _, err := parseIdentity(text)
		return cert, err
	}}
	cert, key, err := parseIdentity(text)
	if err != nil {
		return nil, fmt.Errorf("transport: identity: %s: %w", file, err)
	}
	id.cert.Store(cert)
	id.reset = key
	return id, id.protect(file)
}

// LoadIdentity returns an identity with a certificate (PEM, the server's own first) and key made elsewhere. The reset
// key is kept in dir, made there first if it is missing.
func LoadIdentity(certFile, keyFile, dir string) (*Identity, error) {
	id := &Identity{source: func() (*tls.Certificate, error) {
		cert, err := tls.LoadX509KeyPair(certFile, keyFile)
		return &cert, err
	}}
	if err := id.Reload(); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, resetKeyFile)
	text, err := loadOrCreate(file, newResetKey)
	if err != nil {
		return nil, fmt.Errorf("transport: reset key: %w", err)
	}
	if id.reset, err = parseResetKey(text); err != nil {
		return nil, fmt.Errorf("transport: reset key: %s: %w", file, err)
	}
	return id, id.protect(file)
}

// protect takes the rights of everybody but the owner from a file with secrets.
func (id *Identity) protect(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("transport: identity: %w", err)
	}
	mode := info.Mode().Perm()
	if mode&0o077 == 0 {
		return nil
	}
	if err := os.Chmod(file, 0o600); err != nil {
		return fmt.Errorf("transport: identity: others can read %s: %w", file, err)
	}
	id.mu.Lock()
	id.notes = append(id.notes, fmt.Sprintf("%s had mode %04o and holds secrets; set to 0600", file, mode))
	id.mu.Unlock()
	return nil
}
