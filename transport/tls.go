package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// ALPN is the application protocol id of the Felix wire protocol, version 1.
const ALPN = "felix/1"

// DefaultServerName is the name that clients check the server's certificate against when they are given none.
const DefaultServerName = "localhost"

// ServerTLS returns the server side settings for an identity: TLS 1.3, no client certificates. The certificate is
// asked for at each handshake, so that Identity.Reload takes effect without a new listener.
func ServerTLS(id *Identity) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return id.Certificate(), nil },
		// Sessions are not resumed: connections live long, and a resumed one would not see a new certificate.
		SessionTicketsDisabled: true,
	}
}

// serverTLS adds the choice of the application protocol. A server that lists protocols refuses clients that offer
// none (RFC 9001, 8.1), and one that lists none refuses those that offer some; Felix clients of both kinds exist, so
// the list depends on the offer.
func serverTLS(base *tls.Config, requireALPN bool) *tls.Config {
	listed := base.Clone()
	listed.NextProtos = []string{ALPN}
	silent := base.Clone()
	silent.NextProtos = nil
	if requireALPN {
		return listed
	}
	outer := base.Clone()
	outer.NextProtos = nil
	outer.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if len(hello.SupportedProtos) == 0 {
			return silent, nil
		}
		return listed, nil
	}
	return outer
}

// ClientTLSOptions says how a client checks the server.
type ClientTLSOptions struct {
	// RootCAs are the certificates trusted. Nil: those of CAFile; if that is empty too, those of the system.
	RootCAs *x509.CertPool
	// CAFile is a PEM file with certificates to trust. Ignored if RootCAs is set.
	CAFile string
	// ServerName is the name the certificate must be valid for. Default DefaultServerName.
	ServerName string
	// OfferALPN offers the application protocol ALPN. Without it nothing is offered, which every broker accepts.
	OfferALPN bool
}

// ClientTLS returns the client side settings. The server's certificate is always checked.
func ClientTLS(o ClientTLSOptions) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: o.RootCAs, ServerName: o.ServerName}
	if c.ServerName == "" {
		c.ServerName = DefaultServerName
	}
	if c.RootCAs == nil && o.CAFile != "" {
		pool, err := loadPool(o.CAFile)
		if err != nil {
			return nil, err
		}
		c.RootCAs = pool
	}
	if o.OfferALPN {
		c.NextProtos = []string{ALPN}
	}
	return c, nil
}

func loadPool(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("transport: read CA file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("transport: CA file %s: %w", file, errNoCertificate)
	}
	return pool, nil
}

var errNoCertificate = errors.New("no certificate in it")
