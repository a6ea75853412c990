package auth

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// signRaw makes a token with this very header.
func signRaw(t *testing.T, key SigningKey, header string) string {
	t.Helper()
	body, err := json.Marshal(claims())
	if err != nil {
		t.Fatal(err)
	}
	text := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString(body)
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(key.Private, []byte(text)))
}

// A token has one spelling: what a lenient base64 decoder passes over is no part of it.
func TestTokenHasOneSpelling(t *testing.T) {
	key := DemoKey()
	v := NewVerifierAt(NewKeySet(key.Public()), clock)
	good := sign(t, key, nil, claims())
	parts := strings.Split(good, ".")
	for name, token := range map[string]string{
		"newline at the end":     good + "\n",
		"line end at the end":    good + "\r\n",
		"newline in front":       "\n" + good,
		"newline in a signature": parts[0] + "." + parts[1] + "." + parts[2][:9] + "\n" + parts[2][9:],
		"space at the end":       good + " ",
		"tab":                    "\t" + good,
		"zero byte":              good + "\x00",
		"padding":                good + "=",
		"other alphabet":         parts[0] + "." + parts[1] + "." + parts[2][:9] + "+" + parts[2][10:],
		"scheme":                 "Bearer " + good,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := v.Authenticate("t1", token); !errors.Is(err, ErrAuthFailed) {
				t.Errorf("error %v, want ErrAuthFailed", err)
			}
			if _, err := Inspect(token); err == nil {
				t.Error("inspected")
			}
		})
	}
	// The same text with newlines signed into it is no token either.
	text := parts[0] + "\n." + parts[1]
	if _, err := v.Authenticate("t1", text+"."+base64.RawURLEncoding.EncodeToString(ed25519.Sign(key.Private, []byte(text)))); err == nil {
		t.Error("a newline under the signature was accepted")
	}
}

// RFC 7515 section 4.1.11: an extension that is marked critical and not known refuses the token. RFC 7797: b64 false
// would mean a payload that is not encoded.
func TestTokenHeader(t *testing.T) {
	key := DemoKey()
	v := NewVerifierAt(NewKeySet(key.Public()), clock)
	for _, tc := range []struct {
		name, header string
		ok           bool
	}{
		{"plain", `{"alg":"EdDSA"}`, true},
		{"usual", `{"alg":"EdDSA","kid":"demo-k1","typ":"JWT"}`, true},
		{"unknown, not critical", `{"alg":"EdDSA","x5t":"abc"}`, true},
		{"b64 true", `{"alg":"EdDSA","b64":true}`, true},
		{"b64 false", `{"alg":"EdDSA","b64":false}`, false},
		{"b64 of another type", `{"alg":"EdDSA","b64":"true"}`, false},
		{"critical b64", `{"alg":"EdDSA","crit":["b64"],"b64":true}`, false},
		{"critical and unknown", `{"alg":"EdDSA","crit":["exp2"],"exp2":1}`, false},
		{"critical, empty", `{"alg":"EdDSA","crit":[]}`, false},
		{"critical, null", `{"alg":"EdDSA","crit":null}`, false},
		{"member given twice", `{"alg":"none","alg":"EdDSA"}`, false},
		{"trailing data", `{"alg":"EdDSA"}{}`, false},
		{"not UTF-8", "{\"alg\":\"EdDSA\",\"kid\":\"\xff\"}", false},
		{"null", `null`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := v.Authenticate("t1", signRaw(t, key, tc.header))
			if tc.ok != (err == nil) {
				t.Errorf("error %v, want success %v", err, tc.ok)
			}
			if err != nil && !errors.Is(err, ErrAuthFailed) {
				t.Errorf("%v does not wrap ErrAuthFailed", err)
			}
		})
	}
}

func TestKeysHaveOneSpelling(t *testing.T) {
	key := DemoKey()
	text, err := key.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{`"x":"`, `"d":"`} {
		bent := strings.Replace(string(text), member, member+`\n`, 1)
		if _, err := ParseSigningKey([]byte(bent)); !errors.Is(err, ErrBadKey) {
			t.Errorf("newline in %s: %v", member, err)
		}
	}
	x := base64.RawURLEncoding.EncodeToString(key.Public().Key)
	if _, err := ParseKeySet([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + x + `\n"}]}`)); !errors.Is(err, ErrBadKey) {
		t.Errorf("newline in a public key: %v", err)
	}
}
