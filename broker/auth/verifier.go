package auth

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Verifier checks tokens against a key set.
type Verifier struct {
	keys   atomic.Pointer[KeySet]
	now    func() time.Time
	parser *jwt.Parser
}

// NewVerifier returns a verifier that trusts keys for every tenant.
func NewVerifier(keys *KeySet) *Verifier {
	return NewVerifierAt(keys, time.Now)
}

// NewVerifierAt is [NewVerifier] with a clock, which must be safe for
// concurrent use.
func NewVerifierAt(keys *KeySet, now func() time.Time) *Verifier {
	v := &Verifier{now: now, parser: newParser()}
	v.keys.Store(keys)
	return v
}

// newParser decodes strictly and leaves the claims to jwtClaims.check.
func newParser() *jwt.Parser {
	return jwt.NewParser(
		jwt.WithValidMethods([]string{jwkAlgorithm}),
		jwt.WithStrictDecoding(),
		jwt.WithoutClaimsValidation(),
	)
}

// SetKeys replaces the trusted keys for tokens checked from now on; grants
// given before stay as they are.
func (v *Verifier) SetKeys(keys *KeySet) { v.keys.Store(keys) }

// Authenticate checks token for tenant and returns what it allows. The
// signature is tried with the key that the token names, then with every other
// one. Every error wraps [ErrAuthFailed].
//
// Permissions with an action this version does not know are passed over, since
// newer control planes hand out some; a malformed one fails the whole token.
func (v *Verifier) Authenticate(tenant, token string) (*Grants, error) {
	if err := checkForm(token); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAuthFailed, err)
	}
	var c tokenClaims
	if _, err := v.parser.ParseWithClaims(token, &c, v.candidates); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAuthFailed, err)
	}
	if err := c.check(tenant, v.now()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAuthFailed, err)
	}
	g, err := newGrants(c.claims())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAuthFailed, err)
	}
	return g, nil
}

// candidates lists the keys to try, the one named by the token first.
func (v *Verifier) candidates(t *jwt.Token) (any, error) {
	kid, _ := t.Header["kid"].(string)
	keys := v.keys.Load().keys
	set := jwt.VerificationKeySet{Keys: make([]jwt.VerificationKey, 0, len(keys))}
	for _, named := range []bool{true, false} {
		for _, k := range keys {
			if (k.ID == kid) == named {
				set.Keys = append(set.Keys, k.Key)
			}
		}
	}
	return set, nil
}
