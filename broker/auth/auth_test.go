package auth

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

var testNow = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

func clock() time.Time { return testNow }

// claims are those of a good token, as JSON values.
func claims() map[string]any {
	return map[string]any{
		"iss": "felix-auth", "aud": "felix-broker", "sub": "p:demo", "tid": "t1",
		"exp": testNow.Unix() + 900, "iat": testNow.Unix(),
		"perms": []string{"stream.publish:stream:t1/*"},
	}
}

// sign makes a token of any claims.
func sign(t testing.TB, key SigningKey, header map[string]any, c map[string]any) string {
	t.Helper()
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims(c))
	token.Header["kid"] = key.ID
	for k, v := range header {
		if v == nil {
			delete(token.Header, k)
		} else {
			token.Header[k] = v
		}
	}
	s, err := token.SignedString(key.Private)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTokenChecks(t *testing.T) {
	key := DemoKey()
	v := NewVerifierAt(NewKeySet(key.Public()), clock)
	now := testNow.Unix()
	for _, tc := range []struct {
		name string
		edit func(map[string]any)
		ok   bool
	}{
		{"good", func(map[string]any) {}, true},
		{"wrong issuer", func(c map[string]any) { c["iss"] = "felix" }, false},
		{"no issuer", func(c map[string]any) { delete(c, "iss") }, false},
		{"token for the control plane", func(c map[string]any) { c["aud"] = "felix-controlplane" }, false},
		{"audience array", func(c map[string]any) { c["aud"] = []string{"felix-broker"} }, false},
		{"no audience", func(c map[string]any) { delete(c, "aud") }, false},
		{"no subject", func(c map[string]any) { delete(c, "sub") }, false},
		{"empty subject", func(c map[string]any) { c["sub"] = "" }, true},
		{"another tenant", func(c map[string]any) { c["tid"] = "t2" }, false},
		{"no tenant", func(c map[string]any) { delete(c, "tid") }, false},
		{"expired within leeway", func(c map[string]any) { c["exp"] = now - 60 }, true},
		{"expired", func(c map[string]any) { c["exp"] = now - 61 }, false},
		{"no expiry", func(c map[string]any) { delete(c, "exp") }, false},
		{"expiry as text", func(c map[string]any) { c["exp"] = "soon" }, false},
		{"no issue time", func(c map[string]any) { delete(c, "iat") }, false},
		{"issued in the future", func(c map[string]any) { c["iat"] = now + 9999 }, true},
		{"not yet valid is not checked", func(c map[string]any) { c["nbf"] = now + 9999 }, true},
		{"jti", func(c map[string]any) { c["jti"] = "x" }, true},
		{"unknown claim", func(c map[string]any) { c["scope"] = []int{1} }, true},
		{"claim in capitals is unknown", func(c map[string]any) { c["AUD"] = "other" }, true},
		{"no perms", func(c map[string]any) { delete(c, "perms") }, false},
		{"empty perms", func(c map[string]any) { c["perms"] = []string{} }, true},
		{"perms no array", func(c map[string]any) { c["perms"] = "stream.publish:stream:t1/*" }, false},
		{"unknown action", func(c map[string]any) {
			c["perms"] = []string{"group.consume:group:t1/*", "stream.publish:stream:t1/*"}
		}, true},
		{"malformed permission", func(c map[string]any) { c["perms"] = []string{"stream.publish"} }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := claims()
			tc.edit(c)
			g, err := v.Authenticate("t1", sign(t, key, nil, c))
			if tc.ok != (err == nil) {
				t.Fatalf("error %v, want success %v", err, tc.ok)
			}
			if err != nil {
				if !errors.Is(err, ErrAuthFailed) || !strings.HasPrefix(err.Error(), "auth failed") {
					t.Errorf("error %q does not wrap ErrAuthFailed", err)
				}
				return
			}
			if g.Tenant() != "t1" {
				t.Errorf("tenant %q", g.Tenant())
			}
			if want := len(c["perms"].([]string)) > 0; g.Allowed(ActionStreamPublish, "stream:t1/a/b") != want {
				t.Errorf("publish allowed: %v", !want)
			}
		})
	}
}

func TestTokenSignatures(t *testing.T) {
	demo, other := DemoKey(), ConformanceKey()
	both := NewVerifierAt(NewKeySet(other.Public(), demo.Public()), clock)
	one := NewVerifierAt(NewKeySet(demo.Public()), clock)
	good := sign(t, demo, nil, claims())
	parts := strings.Split(good, ".")
	flip := func(s string) string {
		return s[:len(s)/2] + map[bool]string{true: "B", false: "A"}[s[len(s)/2] == 'A'] + s[len(s)/2+1:]
	}
	hmac, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims(claims())).SignedString([]byte(demo.Public().Key))
	if err != nil {
		t.Fatal(err)
	}
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"demo-k1"}`)) + "." + parts[1] + "."
	for _, tc := range []struct {
		name  string
		v     *Verifier
		token string
		ok    bool
	}{
		{"named key", both, good, true},
		{"key under another id", both, sign(t, demo, map[string]any{"kid": "k1"}, claims()), true},
		{"unknown id", both, sign(t, demo, map[string]any{"kid": "zzz"}, claims()), true},
		{"no id", both, sign(t, demo, map[string]any{"kid": nil}, claims()), true},
		{"untrusted key", one, sign(t, other, nil, claims()), false},
		{"untrusted key under a trusted id", one, sign(t, other, map[string]any{"kid": "demo-k1"}, claims()), false},
		{"changed claims", both, parts[0] + "." + flip(parts[1]) + "." + parts[2], false},
		{"changed signature", both, parts[0] + "." + parts[1] + "." + flip(parts[2]), false},
		{"no signature", both, parts[0] + "." + parts[1] + ".", false},
		{"padded", both, parts[0] + "." + parts[1] + "." + parts[2] + "==", false},
		{"HMAC with the public key", both, hmac, false},
		{"none", both, none, false},
		{"two parts", both, parts[0] + "." + parts[1], false},
		{"empty", both, "", false},
		{"text", both, "demo-token", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := tc.v.Authenticate("t1", tc.token); tc.ok != (err == nil) {
				t.Errorf("error %v, want success %v", err, tc.ok)
			}
		})
	}
	t.Run("claim given twice", func(t *testing.T) {
		body, err := json.Marshal(claims())
		if err != nil {
			t.Fatal(err)
		}
		twice := append(bytes.TrimSuffix(body, []byte("}")), `,"tid":"t1"}`...)
		text := parts[0] + "." + base64.RawURLEncoding.EncodeToString(twice)
		sig := ed25519.Sign(demo.Private, []byte(text))
		if _, err := both.Authenticate("t1", text+"."+base64.RawURLEncoding.EncodeToString(sig)); err == nil {
			t.Error("accepted")
		}
	})
	t.Run("null claims", func(t *testing.T) {
		text := parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte("null"))
		sig := ed25519.Sign(demo.Private, []byte(text))
		if _, err := both.Authenticate("", text+"."+base64.RawURLEncoding.EncodeToString(sig)); err == nil {
			t.Error("accepted")
		}
	})
	t.Run("replaced keys", func(t *testing.T) {
		v := NewVerifierAt(NewKeySet(demo.Public()), clock)
		v.SetKeys(NewKeySet(other.Public()))
		if _, err := v.Authenticate("t1", good); err == nil {
			t.Error("an old key is still trusted")
		}
		if _, err := v.Authenticate("t1", sign(t, other, nil, claims())); err != nil {
			t.Error(err)
		}
	})
}

func TestPermissions(t *testing.T) {
	for s, want := range map[string]struct {
		p   Permission
		err error
	}{
		"stream.publish:stream:t1/a/b":  {Permission{ActionStreamPublish, "stream:t1/a/b"}, nil},
		"cache.read:cache:t1/*":         {Permission{ActionCacheRead, "cache:t1/*"}, nil},
		"rbac.assignment.manage:x":      {Permission{ActionRBACAssignmentManage, "x"}, nil},
		"group.consume:group:t1/*":      {Permission{"group.consume", "group:t1/*"}, ErrUnknownAction},
		"Stream.Publish:stream:t1/a/b":  {Permission{"Stream.Publish", "stream:t1/a/b"}, ErrUnknownAction},
		"stream.publish":                {Permission{}, ErrBadPermission},
		"stream.publish:":               {Permission{}, ErrBadPermission},
		":stream:t1/a/b":                {Permission{}, ErrBadPermission},
		"":                              {Permission{}, ErrBadPermission},
		"stream.subscribe:stream:a:b/*": {Permission{ActionStreamSubscribe, "stream:a:b/*"}, nil},
	} {
		p, err := ParsePermission(s)
		if p != want.p || !errors.Is(err, want.err) {
			t.Errorf("%q: %+v, %v", s, p, err)
		}
		if err == nil && p.String() != s {
			t.Errorf("%q comes back as %q", s, p)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, tc := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "a/b", true}, {"**", "", true},
		{"a", "a", true}, {"a", "A", false}, {"a", "ab", false}, {"ab", "a", false},
		{"stream:t1/*/*", "stream:t1/default/demo", true}, {"stream:t1/*/*", "stream:t1/default", false},
		{"stream:t1/*", "stream:t1/a/b/c", true}, {"stream:t1/*", "stream:t10/a", false}, {"stream:t1/*", "stream:t1/", true},
		{"*b", "aab", true}, {"*b", "aba", false}, {"a*b*c", "axxbyyc", true}, {"a*b*c", "ac", false},
		{"a*a", "a", false}, {"a*a", "aa", true}, {"*ab*", "aab", true}, {"*aab", "aaab", true},
		{"[a]", "a", false}, {"?", "a", false}, {`\*`, "*", false}, {`\*`, `\x`, true}, {"*", "*", true},
	} {
		if got := Match(tc.pattern, tc.s); got != tc.want {
			t.Errorf("Match(%q, %q) = %v", tc.pattern, tc.s, got)
		}
	}
	matched := false
	if n := testing.AllocsPerRun(100, func() { matched = Match("stream:t1/*/*", "stream:t1/default/demo") }); n != 0 || !matched {
		t.Errorf("%v allocations, matched %v", n, matched)
	}
}

func TestIssue(t *testing.T) {
	key := DemoKey()
	issuer := NewIssuerAt(key, clock)
	token, err := issuer.Issue(DemoClaims("t1"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewVerifierAt(NewKeySet(key.Public()), clock).Authenticate("t1", token)
	if err != nil {
		t.Fatal(err)
	}
	if g.Subject() != "p:demo" || !g.ExpiresAt().Equal(testNow.Add(900*time.Second)) || len(g.Permissions()) != 6 {
		t.Errorf("grants %q until %v, %v", g.Subject(), g.ExpiresAt(), g.Permissions())
	}
	for _, tc := range []struct {
		a        Action
		resource string
		want     bool
	}{
		{ActionStreamPublish, StreamResource("t1", "default", "demo"), true},
		{ActionStreamSubscribe, StreamResource("t1", "default", "demo"), true},
		{ActionCacheRead, CacheResource("t1", "default", "primary"), true},
		{ActionCacheWrite, CacheResource("t1", "default", "primary"), true},
		{ActionStreamPublish, StreamResource("t2", "default", "demo"), false},
		{ActionStreamManage, StreamResource("t1", "default", "demo"), false},
	} {
		if g.Allowed(tc.a, tc.resource) != tc.want {
			t.Errorf("%s on %s: allowed %v", tc.a, tc.resource, !tc.want)
		}
	}

	in, err := Inspect(token)
	if err != nil {
		t.Fatal(err)
	}
	if in.Algorithm != "EdDSA" || in.KeyID != "demo-k1" || in.Issuer != TokenIssuer || in.Audience != TokenAudience ||
		in.Claims.Tenant != "t1" || !in.Claims.IssuedAt.Equal(testNow) {
		t.Errorf("inspected %+v", in)
	}
	if _, err := Inspect("demo-token"); err == nil {
		t.Error("a token that is none was inspected")
	}

	for _, perms := range [][]string{{"stream.publish"}, {"stream.fly:x"}} {
		if _, err := issuer.Issue(Claims{Tenant: "t1", Permissions: perms}); err == nil {
			t.Errorf("issued a token with %q", perms)
		}
	}
	// A token without permissions is valid and allows nothing.
	token, err = issuer.Issue(Claims{Tenant: "t1", ID: "j", ExpiresAt: testNow.Add(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	if g, err = NewVerifierAt(NewKeySet(key.Public()), clock).Authenticate("t1", token); err != nil || len(g.Permissions()) != 0 {
		t.Errorf("grants %+v, error %v", g, err)
	}
}
