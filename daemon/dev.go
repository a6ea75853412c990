package daemon

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"felix/broker/auth"
)

const (
	// devTokenLife is how long a token of development mode is good for.
	devTokenLife = 30 * 24 * time.Hour
	// devTokenRenewal is how often a new one is written, well within that life.
	devTokenRenewal = 24 * time.Hour
	// devSubject is the principal of that token.
	devSubject = "p:dev"
)

// writeDevToken signs a new token for the development tenant and puts it into
// the token file.
func (d *Daemon) writeDevToken() error {
	claims := auth.DemoClaims(DevTenant)
	claims.Subject = devSubject
	claims.ExpiresAt = time.Now().Add(devTokenLife)
	token, err := d.keys.issuer.Issue(claims)
	if err != nil {
		return err
	}
	return writeFileAtomic(d.endpoint.TokenFile, []byte(token+"\n"), 0o600)
}

// renewDevToken keeps the token file fresh until ctx ends.
func (d *Daemon) renewDevToken(ctx context.Context) {
	t := time.NewTicker(devTokenRenewal)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if err := d.writeDevToken(); err != nil {
				d.log.Error("cannot renew the token", logFile, d.endpoint.TokenFile, logError, err)
			}
		}
	}
}

// publishEndpoint writes token and endpoint.json of development mode, so that
// programs of the same user find the broker, and takes the latter away again
// before the broker drains.
func (d *Daemon) publishEndpoint() error {
	d.endpoint = Endpoint{
		Addr:      d.Addr(),
		CAFile:    filepath.Join(d.dataDir, caName),
		TokenFile: filepath.Join(d.dataDir, tokenName),
		Tenant:    DevTenant, Namespace: DevNamespace,
		AdminSocket: d.adminPath,
		PID:         os.Getpid(),
	}
	if err := d.writeDevToken(); err != nil {
		return &StartError{Step: "token", Err: err}
	}
	if err := writeEndpoint(d.dataDir, d.endpoint); err != nil {
		return &StartError{Step: "endpoint file", Err: err}
	}
	d.onStop("endpoint file", func(context.Context) error {
		return os.Remove(filepath.Join(d.dataDir, endpointName))
	})
	return nil
}

// announce prints what a client needs in development mode.
func (d *Daemon) announce(w io.Writer) {
	fmt.Fprintf(w, "address     %s\nCA file     %s\ntoken file  %s\n", d.endpoint.Addr, d.endpoint.CAFile, d.endpoint.TokenFile)
}
