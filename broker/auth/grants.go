package auth

import (
	"errors"
	"time"
)

// Grants is what an accepted token allows. It is immutable and stays valid
// after the token has expired: a QUIC stream is checked once.
type Grants struct {
	claims Claims
	perms  []Permission
}

// newGrants parses the permissions of c.
func newGrants(c Claims) (*Grants, error) {
	g := &Grants{claims: c}
	for _, s := range c.Permissions {
		p, err := ParsePermission(s)
		switch {
		case errors.Is(err, ErrUnknownAction):
			continue
		case err != nil:
			return nil, err
		}
		g.perms = append(g.perms, p)
	}
	return g, nil
}

// NewGrants returns grants that did not come from a token, for tests and for
// authenticators of other kinds. The error wraps [ErrBadPermission].
func NewGrants(tenant, subject string, permissions ...string) (*Grants, error) {
	return newGrants(Claims{Tenant: tenant, Subject: subject, Permissions: permissions})
}

// Tenant is the tenant the token is good for.
func (g *Grants) Tenant() string { return g.claims.Tenant }

// Subject is the token's principal.
func (g *Grants) Subject() string { return g.claims.Subject }

// ExpiresAt is when the token ends; zero if it did not come from one.
func (g *Grants) ExpiresAt() time.Time { return g.claims.ExpiresAt }

// Permissions returns a copy of the known permissions.
func (g *Grants) Permissions() []Permission { return append([]Permission(nil), g.perms...) }

// Allowed reports whether action a on resource is permitted. Resources are
// named by [StreamResource] and [CacheResource].
func (g *Grants) Allowed(a Action, resource string) bool {
	for _, p := range g.perms {
		if p.Allows(a, resource) {
			return true
		}
	}
	return false
}
