package auth

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/golang-jwt/jwt/v5"
)

const (
	// TokenIssuer is the only accepted "iss".
	TokenIssuer = "felix-auth"
	// TokenAudience is the only accepted "aud". It has to be a plain string:
	// tokens for several audiences are refused.
	TokenAudience = "felix-broker"
	// ExpiryLeeway is how long after "exp" a token is still taken, for clocks
	// that differ.
	ExpiryLeeway = 60 * time.Second
	// DefaultLifetime is the life of a token whose [Claims] name no end.
	DefaultLifetime = 900 * time.Second
)

// Claims is what a token says.
type Claims struct {
	// Tenant is the "tid" claim, the tenant the token is good for.
	Tenant string
	// Subject is the principal, opaque to the broker.
	Subject string
	// ID is the optional "jti" claim, which the broker ignores.
	ID string
	// IssuedAt and ExpiresAt have a resolution of seconds. When issuing, zero
	// values mean now and IssuedAt plus [DefaultLifetime].
	IssuedAt, ExpiresAt time.Time
	// Permissions holds strings that [ParsePermission] reads.
	Permissions []string
}

// jwtClaims is the wire form of Claims. Pointers tell missing from empty.
type jwtClaims struct {
	Issuer      *string  `json:"iss"`
	Audience    *string  `json:"aud"`
	Subject     *string  `json:"sub"`
	Tenant      *string  `json:"tid"`
	ExpiresAt   *int64   `json:"exp"`
	IssuedAt    *int64   `json:"iat"`
	ID          *string  `json:"jti,omitempty"`
	Permissions []string `json:"perms"`
}

// tokenClaims adapts jwtClaims to package jwt, whose own validation is not
// used: the embedded nil map answers its getters with "absent".
type tokenClaims struct {
	jwt.MapClaims
	jwtClaims
}

// UnmarshalJSON is strict: names are case-sensitive, a name given twice or a
// value of the wrong JSON type is an error, an unknown name is ignored.
func (c *tokenClaims) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &c.jwtClaims)
}

// MarshalJSON writes the registered claims.
func (c *tokenClaims) MarshalJSON() ([]byte, error) {
	return json.Marshal(c.jwtClaims)
}

// check applies the rules of a broker at time now to the claims of a token
// whose signature is good.
func (c *jwtClaims) check(tenant string, now time.Time) error {
	switch {
	case c.Issuer == nil || *c.Issuer != TokenIssuer:
		return fmt.Errorf("iss is not %s", TokenIssuer)
	case c.Audience == nil || *c.Audience != TokenAudience:
		return fmt.Errorf("aud is not %s", TokenAudience)
	case c.Subject == nil:
		return fmt.Errorf("sub is missing")
	case c.Tenant == nil || *c.Tenant != tenant:
		return fmt.Errorf("tid is not the tenant %q", tenant)
	case c.IssuedAt == nil:
		return fmt.Errorf("iat is missing")
	case c.ExpiresAt == nil:
		return fmt.Errorf("exp is missing")
	case c.Permissions == nil:
		return fmt.Errorf("perms is missing")
	case *c.ExpiresAt < now.Add(-ExpiryLeeway).Unix():
		return fmt.Errorf("expired at %s", time.Unix(*c.ExpiresAt, 0).UTC().Format(time.RFC3339))
	}
	return nil
}

// claims returns the public form; what is missing is zero.
func (c *jwtClaims) claims() Claims {
	return Claims{
		Tenant: value(c.Tenant), Subject: value(c.Subject), ID: value(c.ID),
		IssuedAt: unix(c.IssuedAt), ExpiresAt: unix(c.ExpiresAt),
		Permissions: c.Permissions,
	}
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func unix(s *int64) time.Time {
	if s == nil {
		return time.Time{}
	}
	return time.Unix(*s, 0)
}
