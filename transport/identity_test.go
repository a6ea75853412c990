package transport

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func mode(t *testing.T, file string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

// TestIdentityStable: a restart finds the same certificate and reset key, and only the owner can read them.
func TestIdentityStable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first, err := LoadOrCreateIdentity(dir, "broker.test", "192.0.2.7")
	if err != nil {
		t.Fatal(err)
	}
	again, err := LoadOrCreateIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(first.Certificate().Certificate[0], again.Certificate().Certificate[0]) {
		t.Error("the certificate has changed")
	}
	if *first.ResetKey() != *again.ResetKey() || *first.ResetKey() == [32]byte{} {
		t.Error("the reset key has changed, or is zero")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || mode(t, filepath.Join(dir, entries[0].Name())) != 0o600 {
		t.Errorf("files %v, want one with mode 0600", entries)
	}
	if m := mode(t, dir); m != 0o700 {
		t.Errorf("directory has mode %o", m)
	}
	other, err := LoadOrCreateIdentity(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if *first.ResetKey() == *other.ResetKey() {
		t.Error("two identities share a reset key")
	}
}

func TestCertificateContent(t *testing.T) {
	id, err := LoadOrCreateIdentity(t.TempDir(), "broker.test", "192.0.2.7", "localhost", "127.0.0.1", "")
	if err != nil {
		t.Fatal(err)
	}
	leaf := id.Certificate().Leaf
	now := time.Now()
	if leaf.NotBefore.Year() < 2000 || leaf.NotBefore.After(now) || leaf.NotAfter.Before(now.AddDate(5, 0, 0)) {
		t.Errorf("valid from %v to %v", leaf.NotBefore, leaf.NotAfter)
	}
	if leaf.IsCA || !leaf.BasicConstraintsValid {
		t.Error("the certificate must not be a CA")
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"localhost", "127.0.0.1", "::1", host, "broker.test", "192.0.2.7"}
	for _, name := range names {
		if err := leaf.VerifyHostname(name); err != nil {
			t.Errorf("name %s: %v", name, err)
		}
	}
	if len(leaf.DNSNames)+len(leaf.IPAddresses) > len(names) {
		t.Errorf("names twice: %v %v", leaf.DNSNames, leaf.IPAddresses)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: id.Pool(), DNSName: "localhost"}); err != nil {
		t.Errorf("verify: %v", err)
	}
	if w := id.Warnings(now, names...); len(w) != 0 {
		t.Errorf("warnings: %q", w)
	}
	for _, test := range []struct {
		now  time.Time
		name string
		want string
	}{
		{leaf.NotAfter.Add(-24 * time.Hour), "localhost", "expires on"},
		{leaf.NotAfter.Add(time.Hour), "localhost", "expired on"},
		{leaf.NotBefore.Add(-time.Hour), "localhost", "not valid before"},
		{now, "elsewhere.test", "not valid for elsewhere.test"},
	} {
		if w := id.Warnings(test.now, test.name); len(w) != 1 || !strings.Contains(w[0], test.want) {
			t.Errorf("warnings at %v for %s: %q, want %q", test.now, test.name, w, test.want)
		}
	}
}

func TestIdentityConcurrentCreation(t *testing.T) {
	dir := t.TempDir()
	ids := make([]*Identity, 16)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			id, err := LoadOrCreateIdentity(dir)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = id
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for _, id := range ids[1:] {
		if *id.ResetKey() != *ids[0].ResetKey() || !id.Certificate().Leaf.Equal(ids[0].Certificate().Leaf) {
			t.Fatal("two identities in one directory")
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}

func TestIdentityRights(t *testing.T) {
	dir := t.TempDir()
	if _, err := LoadOrCreateIdentity(dir); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, identityFile)
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	id, err := LoadOrCreateIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	if mode(t, file) != 0o600 {
		t.Error("others can still read the key")
	}
	if w := id.Warnings(time.Now()); len(w) != 1 || !strings.Contains(w[0], "0644") {
		t.Errorf("warnings: %q", w)
	}
}

func TestIdentityDamaged(t *testing.T) {
	for name, text := range map[string]string{
		"empty":           "",
		"no key":          string(pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: []byte{1}})),
		"short reset key": string(pem.EncodeToMemory(&pem.Block{Type: blockResetKey, Bytes: make([]byte, 31)})),
		"long reset key":  string(pem.EncodeToMemory(&pem.Block{Type: blockResetKey, Bytes: make([]byte, 33)})),
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, identityFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadOrCreateIdentity(dir); err == nil || !strings.Contains(err.Error(), identityFile) {
			t.Errorf("%s: %v, want an error that names the file", name, err)
		}
		if kept, err := os.ReadFile(filepath.Join(dir, identityFile)); err != nil || string(kept) != text {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

// keyPairFiles writes a certificate and its key as an operator would have them.
func keyPairFiles(t *testing.T, dir string) (certFile, keyFile string) {
	t.Helper()
	text, err := newIdentity(time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	cert, rest := pem.Decode(text)
	key, _ := pem.Decode(rest)
	for file, block := range map[string]*pem.Block{certFile: cert, keyFile: key} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// TestLoadedCertificate: a certificate made elsewhere is used, and a new one takes effect without a new listener.
func TestLoadedCertificate(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := keyPairFiles(t, dir)
	id, err := LoadIdentity(certFile, keyFile, filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := LoadIdentity(certFile, keyFile, filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	if *id.ResetKey() != *again.ResetKey() || mode(t, filepath.Join(dir, "data", resetKeyFile)) != 0o600 {
		t.Error("the reset key was not kept, or others can read it")
	}
	l := listen(t, func(c *Config) { c.TLS = ServerTLS(id) })
	use := func(want []byte) {
		t.Helper()
		d := dialer(t, func(c *Config) { c.TLS = clientTLS(t, ClientTLSOptions{RootCAs: id.Pool()}) })
		c := dial(t, d, l.Addr())
		if got := c.qc.ConnectionState().TLS.PeerCertificates[0].Raw; !slices.Equal(got, want) {
			t.Error("another certificate was shown")
		}
	}
	old := id.Certificate().Certificate[0]
	use(old)
	if err := os.WriteFile(keyFile, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := id.Reload(); err == nil {
		t.Error("reload of a damaged key succeeded")
	}
	use(old)
	keyPairFiles(t, dir)
	if err := id.Reload(); err != nil {
		t.Fatal(err)
	}
	if slices.Equal(id.Certificate().Certificate[0], old) {
		t.Fatal("the certificate did not change")
	}
	use(id.Certificate().Certificate[0])
}

func TestWriteCAFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "ca.pem")
	for range 2 {
		if err := testIdentity.WriteCAFile(file); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "KEY") || mode(t, file) != 0o644 {
		t.Error("the CA file holds a key, or cannot be read by everybody")
	}
	block, rest := pem.Decode(text)
	if block == nil || !slices.Equal(block.Bytes, testIdentity.Certificate().Certificate[0]) || len(rest) != 0 {
		t.Error("the CA file is not the certificate")
	}
	if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := testIdentity.WriteCAFile(file); err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(file); err != nil || !slices.Equal(now, text) {
		t.Error("an old CA file was not replaced")
	}
	if err := testIdentity.WriteCAFile(filepath.Join(dir, "missing", "ca.pem")); err == nil {
		t.Error("write into a missing directory succeeded")
	}
}

func TestVersionIsTLS13(t *testing.T) {
	c := dial(t, dialer(t, nil), listen(t, nil).Addr())
	if v := c.qc.ConnectionState().TLS.Version; v != tls.VersionTLS13 {
		t.Errorf("TLS version %x", v)
	}
	if c.LocalAddr().(*net.UDPAddr).Port == 0 || c.RemoteAddr().(*net.UDPAddr).Port == 0 || c.ID() == 0 {
		t.Error("addresses or id missing")
	}
}
