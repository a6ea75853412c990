package auth

import (
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Issuer signs tokens with one key.
type Issuer struct {
	key SigningKey
	now func() time.Time
}

// NewIssuer returns an issuer that signs with key.
func NewIssuer(key SigningKey) *Issuer { return NewIssuerAt(key, time.Now) }

// NewIssuerAt is [NewIssuer] with a clock, which must be safe for concurrent
// use.
func NewIssuerAt(key SigningKey, now func() time.Time) *Issuer {
	return &Issuer{key: key, now: now}
}

// Issue signs c. The error wraps [ErrBadPermission] or [ErrUnknownAction] if a
// permission would be useless.
func (i *Issuer) Issue(c Claims) (string, error) {
	for _, p := range c.Permissions {
		if _, err := ParsePermission(p); err != nil {
			return "", fmt.Errorf("issue token: %w", err)
		}
	}
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, i.wire(c))
	token.Header["kid"] = i.key.ID
	s, err := token.SignedString(i.key.Private)
	if err != nil {
		return "", fmt.Errorf("issue token: %w", err)
	}
	return s, nil
}

// wire fills in the times and the fixed claims.
func (i *Issuer) wire(c Claims) *tokenClaims {
	if c.IssuedAt.IsZero() {
		c.IssuedAt = i.now()
	}
	if c.ExpiresAt.IsZero() {
		c.ExpiresAt = c.IssuedAt.Add(DefaultLifetime)
	}
	issuer, audience := TokenIssuer, TokenAudience
	issued, expires := c.IssuedAt.Unix(), c.ExpiresAt.Unix()
	out := &tokenClaims{jwtClaims: jwtClaims{
		Issuer: &issuer, Audience: &audience, Subject: &c.Subject, Tenant: &c.Tenant,
		ExpiresAt: &expires, IssuedAt: &issued, Permissions: append([]string{}, c.Permissions...),
	}}
	if c.ID != "" {
		out.ID = &c.ID
	}
	return out
}

// Inspection is what a token says about itself, unverified.
type Inspection struct {
	Algorithm, KeyID string
	Issuer, Audience string
	Claims           Claims
}

// Inspect decodes a token without checking its signature or its claims. Use it
// to show a token to its owner, never to decide anything.
func Inspect(token string) (Inspection, error) {
	if err := checkForm(token); err != nil {
		return Inspection{}, fmt.Errorf("inspect token: %w", err)
	}
	var c tokenClaims
	t, _, err := newParser().ParseUnverified(token, &c)
	if err != nil {
		return Inspection{}, fmt.Errorf("inspect token: %w", err)
	}
	kid, _ := t.Header["kid"].(string)
	return Inspection{
		Algorithm: t.Method.Alg(), KeyID: kid,
		Issuer: value(c.Issuer), Audience: value(c.Audience),
		Claims: c.claims(),
	}, nil
}
