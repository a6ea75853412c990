package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"

	"felix/broker/auth"
)

// checkFiles reads the files that the settings name, as a start would.
func (l *Loaded) checkFiles() error {
	c := &l.Config
	if c.JWKSFile != "" {
		if _, err := auth.LoadKeySet(c.JWKSFile); err != nil {
			return l.fileError("jwks_file", err)
		}
	}
	if c.TLSCertFile == "" {
		return nil
	}
	cert, err := readCertificate(c.TLSCertFile)
	if err != nil {
		return l.fileError("tls_cert_file", err)
	}
	key, err := os.ReadFile(c.TLSKeyFile)
	if err == nil {
		_, err = tls.X509KeyPair(cert, key)
	}
	if err != nil {
		return l.fileError("tls_key_file", err)
	}
	return nil
}

func (l *Loaded) fileError(key string, err error) error {
	return settingErrorf(key, l.place(key), "%v", err)
}

// readCertificate returns the content of a file that starts with a certificate.
func readCertificate(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, errors.New(file + " holds no certificate (PEM)")
		}
		if block.Type == "CERTIFICATE" {
			_, err := x509.ParseCertificate(block.Bytes)
			return text, err
		}
	}
}
