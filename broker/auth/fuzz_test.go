package auth

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// Match against the definition: a star is any string.
func FuzzMatch(f *testing.F) {
	f.Add("a*b*c", "axxbyyc")
	f.Add("**a", "aaa")
	f.Add("*", "")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if len(pattern) > 40 || len(s) > 40 {
			return
		}
		if got, want := Match(pattern, s), matchTable(pattern, s); got != want {
			t.Errorf("Match(%q, %q) = %v, want %v", pattern, s, got, want)
		}
	})
}

// matchTable fills the table of all prefixes.
func matchTable(pattern, s string) bool {
	row := make([]bool, len(s)+1)
	row[0] = true
	for i := range len(pattern) {
		next := make([]bool, len(s)+1)
		for j := range len(s) + 1 {
			if pattern[i] == '*' {
				next[j] = row[j] || j > 0 && next[j-1]
			} else {
				next[j] = j > 0 && row[j-1] && pattern[i] == s[j-1]
			}
		}
		row = next
	}
	return row[len(s)]
}

func FuzzAuthenticate(f *testing.F) {
	key := DemoKey()
	v := NewVerifierAt(NewKeySet(key.Public(), ConformanceKey().Public()), clock)
	good := sign(f, key, nil, claims())
	f.Add("t1", good)
	f.Add("", "..")
	f.Add("t1", strings.Replace(good, ".", "", 1))
	f.Add("t1", "eyJhbGciOiJub25lIn0.e30.")
	f.Fuzz(func(t *testing.T, tenant, token string) {
		g, err := v.Authenticate(tenant, token)
		if err == nil && (token != good || g.Tenant() != tenant) {
			t.Errorf("accepted %q for %q", token, tenant)
		}
		if err != nil && !errors.Is(err, ErrAuthFailed) {
			t.Errorf("error %v", err)
		}
		_, _ = Inspect(token) // must not panic
	})
}

func FuzzClaims(f *testing.F) {
	b, err := json.Marshal(claims())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"iss":null,"exp":1e9,"perms":[1]}`))
	f.Add([]byte(`null`))
	key := DemoKey()
	v := NewVerifierAt(NewKeySet(key.Public()), clock)
	head := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"EdDSA"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		text := head + "." + base64.RawURLEncoding.EncodeToString(body)
		sig := ed25519.Sign(key.Private, []byte(text))
		g, err := v.Authenticate("t1", text+"."+base64.RawURLEncoding.EncodeToString(sig))
		if err != nil {
			return
		}
		if g.Tenant() != "t1" {
			t.Errorf("accepted %q for tenant %q", body, g.Tenant())
		}
		for _, p := range g.Permissions() {
			if !p.Action.Known() {
				t.Errorf("accepted %q with permission %v", body, p)
			}
		}
	})
}

func FuzzParseKeySet(f *testing.F) {
	b, err := NewKeySet(DemoKey().Public(), ConformanceKey().Public()).MarshalJSON()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"keys":[{"kty":"RSA"},{}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		set, err := ParseKeySet(in)
		if err != nil {
			return
		}
		out, err := set.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseKeySet(out)
		if err != nil || len(again.Keys()) != len(set.Keys()) {
			t.Errorf("%s came back as %s: %v", in, out, err)
		}
	})
}

func FuzzParsePermission(f *testing.F) {
	for _, s := range DemoClaims("t1").Permissions {
		f.Add(s)
	}
	f.Add("::")
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePermission(s)
		if err == nil && (p.String() != s || !p.Action.Known() || p.Resource == "") {
			t.Errorf("%q parsed as %+v", s, p)
		}
	})
}
