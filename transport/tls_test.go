package transport

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestALPN(t *testing.T) {
	tests := []struct {
		name     string
		offer    []string
		require  bool
		accepted bool
		protocol string
	}{
		{"none", nil, false, true, ""},
		{"felix", []string{ALPN}, false, true, ALPN},
		{"felix among others", []string{"h3", ALPN}, false, true, ALPN},
		{"other", []string{"h3"}, false, false, ""},
		{"none, required", nil, true, false, ""},
		{"felix, required", []string{ALPN}, true, true, ALPN},
		{"felix among others, required", []string{"h3", ALPN}, true, true, ALPN},
		{"other, required", []string{"h3"}, true, false, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := listen(t, func(c *Config) { c.RequireALPN = test.require })
			d := dialer(t, func(c *Config) { c.TLS.NextProtos = test.offer })
			c, err := d.Dial(testContext(t), l.Addr().String())
			if !test.accepted {
				var h *HandshakeError
				if !errors.As(err, &h) || h.Kind != FailALPN || !h.Remote {
					t.Fatalf("dial: %v, want a refusal for the protocol", err)
				}
				eventually(t, "the refusal to be counted", func() bool { return l.Stats().Failures[FailALPN] == 1 })
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := c.NegotiatedProtocol(); got != test.protocol {
				t.Errorf("client: protocol %q, want %q", got, test.protocol)
			}
			if got := accept(t, l).NegotiatedProtocol(); got != test.protocol {
				t.Errorf("server: protocol %q, want %q", got, test.protocol)
			}
		})
	}
}

func TestClientTLS(t *testing.T) {
	dir := t.TempDir()
	caFile := filepath.Join(dir, "ca.pem")
	if err := testIdentity.WriteCAFile(caFile); err != nil {
		t.Fatal(err)
	}
	l := listen(t, nil)
	t.Run("CA file, offering the protocol", func(t *testing.T) {
		d := dialer(t, func(c *Config) { c.TLS = clientTLS(t, ClientTLSOptions{CAFile: caFile, OfferALPN: true}) })
		client, server := pair(t, l, d)
		if client.NegotiatedProtocol() != ALPN || server.NegotiatedProtocol() != ALPN {
			t.Error("the protocol was not negotiated")
		}
	})
	t.Run("other server name", func(t *testing.T) {
		d := dialer(t, func(c *Config) {
			c.TLS = clientTLS(t, ClientTLSOptions{CAFile: caFile, ServerName: "elsewhere.test"})
		})
		_, err := d.Dial(testContext(t), l.Addr().String())
		var h *HandshakeError
		var v *tls.CertificateVerificationError
		if !errors.As(err, &h) || h.Kind != FailCertificate || h.Remote || !errors.As(err, &v) {
			t.Errorf("dial: %v, want a certificate error that names the cause", err)
		}
	})
	t.Run("system roots", func(t *testing.T) {
		d := dialer(t, func(c *Config) { c.TLS = clientTLS(t, ClientTLSOptions{}) })
		_, err := d.Dial(testContext(t), l.Addr().String())
		var unknown x509.UnknownAuthorityError
		if !errors.As(err, &unknown) {
			t.Errorf("dial: %v, want an unknown authority", err)
		}
	})
	t.Run("files that do not help", func(t *testing.T) {
		if _, err := ClientTLS(ClientTLSOptions{CAFile: filepath.Join(dir, "none.pem")}); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("missing CA file: %v", err)
		}
		empty := filepath.Join(dir, "empty.pem")
		if err := os.WriteFile(empty, pem.EncodeToMemory(&pem.Block{Type: "OTHER"}), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ClientTLS(ClientTLSOptions{CAFile: empty}); !errors.Is(err, errNoCertificate) {
			t.Errorf("CA file without a certificate: %v", err)
		}
	})
}
