package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"felix/broker/auth"
	"felix/daemon"
)

func (a *app) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Issue and inspect access tokens",
	}
	cmd.AddCommand(a.tokenIssueCommand(), a.tokenInspectCommand())
	return requireSubcommand(cmd)
}

// issueOptions are the flags of felix token issue.
type issueOptions struct {
	key     string
	subject string
	perms   []string
	ttl     time.Duration
	out     string
}

func (a *app) tokenIssueCommand() *cobra.Command {
	var o issueOptions
	cmd := &cobra.Command{
		Use:   "issue",
		Short: "Sign an access token",
		Long: `Signs an access token for --tenant with the key that a broker without jwks_file
keeps in its data directory, or with another private key (JWK file).

Without --perm the token allows publishing, subscribing and the cache in all of
the tenant. A permission is ACTION:RESOURCE, with * for any characters, like
stream.publish:stream:t1/default/orders or cache.read:cache:t1/default/*.`,
		Example: `  felix token issue --tenant t1 --ttl 720h --out token
  felix token issue --tenant t1 --perm 'stream.subscribe:stream:t1/default/*'`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.issueToken(o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.key, "key", "", "private key (JWK file); default: the key in the data directory")
	f.StringVar(&o.subject, "subject", "p:cli", "principal")
	f.StringArrayVar(&o.perms, "perm", nil, "permission ACTION:RESOURCE (may be repeated)")
	f.DurationVar(&o.ttl, "ttl", 24*time.Hour, "life of the token")
	f.StringVar(&o.out, "out", "", "write it to this file, mode 0600, instead of standard output")
	return cmd
}

func (a *app) issueToken(o issueOptions) error {
	if o.ttl < time.Second {
		return usagef("--ttl %v: want 1s or more", o.ttl)
	}
	path := o.key
	if path == "" {
		dir, err := a.dataDir()
		if err != nil {
			return err
		}
		path = daemon.SigningKeyFile(dir)
	}
	key, err := auth.LoadSigningKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return hint(fmt.Errorf("token issue: no signing key at %s", path), "felixd makes one at its first start; name its data directory with --data-dir, or a key with --key")
	}
	if err != nil {
		return opError("token issue", err)
	}
	tenant := a.value("tenant")
	fill(&tenant, daemon.DevTenant)
	if err := errors.Join(checkText("--tenant", tenant), checkText("--subject", o.subject)); err != nil {
		return opError("token issue", err)
	}
	claims := auth.DemoClaims(tenant)
	claims.Subject = o.subject
	claims.ExpiresAt = time.Now().Add(o.ttl)
	if len(o.perms) > 0 {
		claims.Permissions = o.perms
	}
	token, err := auth.NewIssuer(key).Issue(claims)
	if errors.Is(err, auth.ErrBadPermission) || errors.Is(err, auth.ErrUnknownAction) {
		return usagef("%v", err)
	}
	if err != nil {
		return opError("token issue", err)
	}
	return a.putToken(o.out, token, claims)
}

// issuedToken is what felix token issue --json prints.
type issuedToken struct {
	Token       string    `json:"token,omitempty"`
	File        string    `json:"file,omitempty"`
	Tenant      string    `json:"tenant"`
	Subject     string    `json:"subject"`
	ExpiresAt   time.Time `json:"expires_at"`
	Permissions []string  `json:"permissions"`
}

func (a *app) putToken(file, token string, c auth.Claims) error {
	if file != "" {
		if err := writePrivate(file, token+"\n"); err != nil {
			return opError("token issue", err)
		}
	}
	if a.json() {
		t := issuedToken{Token: token, File: file, Tenant: c.Tenant, Subject: c.Subject, ExpiresAt: c.ExpiresAt.UTC().Truncate(time.Second), Permissions: c.Permissions}
		if file != "" {
			t.Token = ""
		}
		return a.writeJSON(t)
	}
	if file != "" {
		return nil
	}
	return a.printf("%s\n", token)
}

// writePrivate writes a file that only its owner can read. One that exists
// loses what rights others had.
func writePrivate(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = f.Chmod(0o600)
	if err == nil {
		_, err = f.WriteString(text)
	}
	return errors.Join(err, f.Close())
}

// inspected is what felix token inspect prints.
type inspected struct {
	Algorithm   string    `json:"algorithm"`
	KeyID       string    `json:"key_id"`
	Issuer      string    `json:"issuer"`
	Audience    string    `json:"audience"`
	Tenant      string    `json:"tenant"`
	Subject     string    `json:"subject"`
	IssuedAt    time.Time `json:"issued_at"`
	ExpiresAt   time.Time `json:"expires_at"`
	Expired     bool      `json:"expired"`
	Permissions []string  `json:"permissions"`
	// Verified is absent when no key set was given.
	Verified *bool  `json:"verified,omitempty"`
	Problem  string `json:"problem,omitempty"`
}

func (a *app) tokenInspectCommand() *cobra.Command {
	var jwks string
	cmd := &cobra.Command{
		Use:   "inspect [TOKEN|FILE|-]",
		Short: "Show what a token says, and check it against a key set",
		Long: `Shows the content of a token: the one given, of a file, of standard input (-), or
the one that other commands would use. With --jwks its signature and its claims
are checked as a broker would.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			token, err := a.tokenArgument(cmd.Context(), args)
			if err != nil {
				return err
			}
			return a.inspectToken(token, jwks)
		},
	}
	cmd.Flags().StringVar(&jwks, "jwks", "", "key set (JWKS file) to check the signature with")
	return cmd
}

// tokenArgument reads the token that the arguments mean.
func (a *app) tokenArgument(ctx context.Context, args []string) (string, error) {
	if len(args) == 0 {
		t, err := a.target()
		if err != nil {
			return "", err
		}
		return t.readToken(ctx)
	}
	if args[0] == "-" {
		text, err := io.ReadAll(a.io.In)
		return strings.TrimSpace(string(text)), opError("read input", err)
	}
	if text, err := os.ReadFile(args[0]); err == nil {
		return strings.TrimSpace(string(text)), nil
	}
	return args[0], nil
}

func (a *app) inspectToken(token, jwks string) error {
	in, err := auth.Inspect(token)
	if err != nil {
		return hint(err, "it is neither a token nor the name of a file with one")
	}
	c := in.Claims
	v := inspected{
		Algorithm: in.Algorithm, KeyID: in.KeyID, Issuer: in.Issuer, Audience: in.Audience, Tenant: c.Tenant, Subject: c.Subject,
		IssuedAt: c.IssuedAt.UTC(), ExpiresAt: c.ExpiresAt.UTC(), Expired: time.Now().After(c.ExpiresAt), Permissions: c.Permissions,
	}
	if jwks != "" {
		keys, err := auth.LoadKeySet(jwks)
		if err != nil {
			return err
		}
		_, err = auth.NewVerifier(keys).Authenticate(c.Tenant, token)
		ok := err == nil
		v.Verified = &ok
		if err != nil {
			v.Problem = err.Error()
		}
	}
	if a.json() {
		err = a.writeJSON(v)
	} else {
		err = a.table(inspectedRows(v))
	}
	if err == nil && v.Verified != nil && !*v.Verified {
		return errors.New("token inspect: a broker with this key set refuses the token: " + v.Problem)
	}
	return err
}

func inspectedRows(v inspected) [][]string {
	expiry := v.ExpiresAt.Format(time.RFC3339)
	if v.Expired {
		expiry += " (expired)"
	}
	rows := [][]string{
		{"tenant", v.Tenant}, {"subject", v.Subject}, {"issued", v.IssuedAt.Format(time.RFC3339)}, {"expires", expiry},
		{"issuer", v.Issuer}, {"audience", v.Audience}, {"algorithm", v.Algorithm}, {"key", v.KeyID},
	}
	for _, p := range v.Permissions {
		rows = append(rows, []string{"permission", p})
	}
	if v.Verified != nil {
		word := "no"
		if *v.Verified {
			word = "yes"
		}
		rows = append(rows, []string{"verified", word})
	}
	return rows
}
