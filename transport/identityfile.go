package transport

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// PEM block types of the identity files.
const (
	blockCertificate = "CERTIFICATE"
	blockPrivateKey  = "PRIVATE KEY" // PKCS #8
	blockResetKey    = "FELIX STATELESS RESET KEY"
)

// resetKeyFile holds the reset key of a server whose certificate comes from elsewhere.
const resetKeyFile = "reset-key.pem"

const (
	certificateLife = 10 * 365 * 24 * time.Hour
	// clockSkew is how far the clock of a client may be behind when it first meets a new certificate.
	clockSkew = time.Hour
)

// newIdentity makes the content of an identity file.
func newIdentity(now time.Time, names []string) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	template, err := certificateTemplate(now, names)
	if err != nil {
		return nil, err
	}
	certDER, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	reset, err := newResetKey()
	if err != nil {
		return nil, err
	}
	return slices.Concat(
		pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: certDER}),
		pem.EncodeToMemory(&pem.Block{Type: blockPrivateKey, Bytes: keyDER}),
		reset,
	), nil
}

// certificateTemplate describes a self-signed server certificate. It is no CA: strict clients (webpki) refuse a CA
// certificate as that of a server.
func certificateTemplate(now time.Time, names []string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	c := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "felix broker"},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(certificateLife),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	all := []string{DefaultServerName, "127.0.0.1", "::1"}
	if host, err := os.Hostname(); err == nil && host != "" { // a host without a name just has none
		all = append(all, host)
	}
	addNames(c, append(all, names...))
	return c, nil
}

// addNames sorts names into addresses and host names, each once.
func addNames(c *x509.Certificate, names []string) {
	for _, name := range names {
		ip := net.ParseIP(name)
		switch {
		case ip != nil && !slices.ContainsFunc(c.IPAddresses, ip.Equal):
			c.IPAddresses = append(c.IPAddresses, ip)
		case ip == nil && name != "" && !slices.Contains(c.DNSNames, name):
			c.DNSNames = append(c.DNSNames, name)
		}
	}
}

func newResetKey() ([]byte, error) {
	var key [32]byte
	if _, err := rand.Read(key[:]); err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockResetKey, Bytes: key[:]}), nil
}

// parseIdentity takes an identity file apart.
func parseIdentity(text []byte) (*tls.Certificate, [32]byte, error) {
	key, err := parseResetKey(text)
	if err != nil {
		return nil, key, err
	}
	cert, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, key, err
	}
	return &cert, key, nil
}

func parseResetKey(text []byte) (key [32]byte, err error) {
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return key, errors.New("no stateless reset key in it")
		}
		if block.Type != blockResetKey {
			continue
		}
		if n := copy(key[:], block.Bytes); n != len(key) || len(block.Bytes) != n {
			return key, fmt.Errorf("the stateless reset key has %d bytes instead of %d", len(block.Bytes), len(key))
		}
		return key, nil
	}
}

// loadOrCreate returns the content of a file, making the file first if it is missing. Of several processes that make
// it at once, one wins, and all return what it made.
func loadOrCreate(file string, content func() ([]byte, error)) ([]byte, error) {
	text, err := os.ReadFile(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return text, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	text, err = content()
	if err != nil {
		return nil, err
	}
	temp, err := writeTemp(file, text, 0o600)
	if err != nil {
		return nil, err
	}
	defer os.Remove(temp) // the file has a second name by then, or is not wanted
	if err := os.Link(temp, file); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := syncDir(filepath.Dir(file)); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
}

// replaceFile puts text in place of a file, whose old content stays until the new one is on disk.
func replaceFile(file string, text []byte, mode fs.FileMode) error {
	temp, err := writeTemp(file, text, mode)
	if err != nil {
		return fmt.Errorf("transport: write %s: %w", file, err)
	}
	if err := os.Rename(temp, file); err != nil {
		_ = os.Remove(temp) // the first error counts
		return fmt.Errorf("transport: write %s: %w", file, err)
	}
	return nil
}

// writeTemp writes text to a new file next to file and returns its name.
func writeTemp(file string, text []byte, mode fs.FileMode) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the first error counts
		}
	}()
	_, err = f.Write(text)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return f.Name(), err
}

// syncDir makes the names in a directory survive a crash of the host.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
